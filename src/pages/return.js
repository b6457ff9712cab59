// Sends the form that returns the response of a sign-in to the client. ES5 only: HtmlUnit and
// browsers embedded in old programs cannot parse the script of the other pages. Without scripts,
// users press the form's button.
"use strict";
var form = document.querySelector("form[data-sends-itself]");
if (form) form.submit();
