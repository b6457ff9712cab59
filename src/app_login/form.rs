//! Forms of an HTML page, and the fields that a browser would send.

use std::mem;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use url::form_urlencoded::byte_serialize;
use zeroize::Zeroizing;

use crate::recipe::{FormChoice, SubmitChoice};

/// Maximum number of fields on a page.
const MAX_FIELDS: usize = 1000;

/// Names and values of the fields to send.
pub(crate) type FormFields = Vec<(String, Zeroizing<String>)>;

/// All forms of a page.
#[derive(Default)]
pub(crate) struct PageForms {
    /// The page's `<base href>`.
    pub(crate) base: Option<String>,
    forms: Vec<HtmlForm>,
}

/// One `<form>`.
#[derive(Default)]
pub(crate) struct HtmlForm {
    id: String,
    name: String,
    pub(crate) action: String,
    is_post: bool,
    encoding: String,
    controls: Vec<Control>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ControlKind {
    Password,
    /// Sent if it has a name.
    Other,
    /// Control that is sent only if the recipe gives it a value, such as an unchecked box.
    Unchecked,
    Submit,
}

struct Control {
    kind: ControlKind,
    name: String,
    value: Zeroizing<String>,
}

/// Element whose end tag has not been read yet. Its content is the value of a control.
#[derive(Default)]
struct OpenElement {
    owner: Option<usize>,
    name: String,
    /// Options of a `<select>`: value, text, and whether it is selected.
    options: Vec<SelectOption>,
    is_multiple: bool,
    text: String,
}

#[derive(Default)]
struct SelectOption {
    value: Option<String>,
    text: String,
    is_selected: bool,
    is_disabled: bool,
}

impl PageForms {
    /// Parses a page.
    ///
    /// # Errors
    /// One line, if the page has too many fields.
    pub(crate) fn parse(html: &str) -> Result<Self, String> {
        let mut emitter = DefaultEmitter::default();
        // Scripts and text areas contain only text: do not parse tags inside them.
        emitter.naively_switch_states(true);
        let mut parser = Parser::default();
        for token in Tokenizer::new_with_emitter(html, emitter) {
            let Ok(token) = token;
            match token {
                Token::StartTag(tag) => parser.start(&Tag(tag)),
                Token::EndTag(tag) => parser.end(&tag.name),
                Token::String(text) => parser.text(&String::from_utf8_lossy(&text)),
                _ => {}
            }
            if parser.fields > MAX_FIELDS {
                return Err(format!("the login page has more than {MAX_FIELDS} fields"));
            }
        }
        parser.close_element();
        Ok(parser.page)
    }

    /// Returns the form that the recipe chooses.
    ///
    /// # Errors
    /// One line that names the password fields of the page.
    pub(crate) fn choose(&self, choice: &FormChoice, password_field: &str) -> Result<&HtmlForm, String> {
        let form = self.forms.iter().find(|form| match choice {
            FormChoice::Password => form.has(password_field, Some(ControlKind::Password)),
            FormChoice::Has(name) => form.has(name, None),
            FormChoice::Id(id) => form.id == *id,
            FormChoice::Name(name) => form.name == *name,
            FormChoice::Action(_) => false,
        });
        form.ok_or_else(|| {
            let controls = self.forms.iter().flat_map(|form| &form.controls);
            let passwords = controls.filter(|control| control.kind == ControlKind::Password);
            let names = passwords.map(|control| format!("{:?}", control.name)).collect::<Vec<_>>();
            let password_fields = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let description = match choice {
                FormChoice::Has(name) => format!("with the field {name:?}"),
                FormChoice::Id(id) => format!("with the id {id:?}"),
                FormChoice::Name(name) => format!("with the name {name:?}"),
                _ => format!("with the password field {password_field:?}"),
            };
            format!(
                "the login page has no form {description}. Its {} forms have these password fields: {password_fields}",
                self.forms.len()
            )
        })
    }
}

/// Replaces the character references in a text of a page (`&amp;`).
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for Ok(token) in Tokenizer::new(text) {
        if let Token::String(part) = token {
            plain.push_str(&String::from_utf8_lossy(&part));
        }
    }
    plain
}

impl HtmlForm {
    fn has(&self, name: &str, kind: Option<ControlKind>) -> bool {
        self.controls.iter().any(|control| control.name == name && kind.is_none_or(|kind| control.kind == kind))
    }

    /// Returns the fields with their default values and the chosen button.
    ///
    /// # Errors
    /// One line, if the form would not be sent as an encoded POST request, or lacks the button.
    pub(crate) fn defaults(&self, submit: &SubmitChoice) -> Result<FormFields, String> {
        if !self.is_post {
            return Err("the form uses GET, which would put the password into a URL; choose another form".to_owned());
        }
        if !["", "application/x-www-form-urlencoded"].contains(&self.encoding.as_str()) {
            return Err(format!("the form has the encoding {:?}, which is not supported", self.encoding));
        }
        let buttons: Vec<&Control> =
            self.controls.iter().filter(|control| control.kind == ControlKind::Submit).collect();
        let button = match submit {
            SubmitChoice::None => None,
            SubmitChoice::First => buttons.first().copied(),
            SubmitChoice::Name(name) => {
                let button = buttons.iter().find(|button| button.name == *name).copied();
                let names = || buttons.iter().map(|button| format!("{:?}", button.name)).collect::<Vec<_>>().join(", ");
                Some(
                    button
                        .ok_or_else(|| format!("submit: the form has no button {name:?}; its buttons: {}", names()))?,
                )
            }
        };
        let is_sent = |control: &&Control| match control.kind {
            ControlKind::Password | ControlKind::Other => true,
            ControlKind::Unchecked => false,
            ControlKind::Submit => button.is_some_and(|button| std::ptr::eq(*control, button)),
        };
        let controls = self.controls.iter().filter(is_sent).filter(|control| !control.name.is_empty());
        Ok(controls.map(|control| (control.name.clone(), control.value.clone())).collect())
    }
}

/// Encodes fields as `application/x-www-form-urlencoded`.
pub(crate) fn encode(fields: &FormFields) -> Zeroizing<Vec<u8>> {
    // Percent-encoding at most triples the length. Reserve that length now, because a buffer that
    // grows leaves a copy of the password in memory.
    let bytes: usize = fields.iter().map(|(name, value)| 3 * (name.len() + value.len()) + 2).sum();
    let mut body = Zeroizing::new(Vec::with_capacity(bytes));
    for (name, value) in fields {
        if !body.is_empty() {
            body.push(b'&');
        }
        for part in byte_serialize(name.as_bytes()) {
            body.extend_from_slice(part.as_bytes());
        }
        body.push(b'=');
        for part in byte_serialize(value.as_bytes()) {
            body.extend_from_slice(part.as_bytes());
        }
    }
    body
}

struct Tag(StartTag<()>);

impl Tag {
    fn get(&self, attribute: &str) -> Option<String> {
        let value = self.0.attributes.get(attribute.as_bytes())?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn text(&self, attribute: &str) -> String {
        self.get(attribute).unwrap_or_default()
    }

    fn has(&self, attribute: &str) -> bool {
        self.0.attributes.contains_key(attribute.as_bytes())
    }
}

#[derive(Default)]
struct Parser {
    page: PageForms,
    /// Index of the form whose end tag has not been read.
    open_form: Option<usize>,
    element: Option<OpenElement>,
    fields: usize,
}

impl Parser {
    fn start(&mut self, tag: &Tag) {
        match tag.0.name.as_slice() {
            b"base" if self.page.base.is_none() => self.page.base = tag.get("href"),
            // HTML ignores a form inside a form.
            b"form" if self.open_form.is_none() => {
                self.page.forms.push(HtmlForm {
                    id: tag.text("id"),
                    name: tag.text("name"),
                    action: tag.text("action").trim().to_owned(),
                    is_post: tag.text("method").eq_ignore_ascii_case("post"),
                    encoding: tag.text("enctype").to_ascii_lowercase(),
                    controls: Vec::new(),
                });
                self.open_form = Some(self.page.forms.len() - 1);
                self.fields += 1;
            }
            b"input" => self.input(tag),
            b"button" if ["", "submit"].contains(&tag.text("type").to_ascii_lowercase().as_str()) => {
                self.push(tag, ControlKind::Submit, tag.text("value"));
            }
            b"select" | b"textarea" => {
                self.close_element();
                let owner = if tag.has("disabled") { None } else { self.owner(tag) };
                self.element = Some(OpenElement {
                    owner,
                    name: tag.text("name"),
                    is_multiple: tag.has("multiple"),
                    ..OpenElement::default()
                });
            }
            b"option" => {
                let option = SelectOption {
                    value: tag.get("value"),
                    text: String::new(),
                    is_selected: tag.has("selected"),
                    is_disabled: tag.has("disabled"),
                };
                if let Some(element) = &mut self.element {
                    element.options.push(option);
                    self.fields += 1;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"form" => {
                self.close_element();
                self.open_form = None;
            }
            b"select" => self.close_element(),
            b"textarea" => {
                if let Some(element) = self.element.take() {
                    let text = element.text.strip_prefix('\n').unwrap_or(&element.text).to_owned();
                    self.add(element.owner, ControlKind::Other, element.name, text);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let Some(element) = &mut self.element else { return };
        match element.options.last_mut() {
            Some(option) => option.text.push_str(text),
            None => element.text.push_str(text),
        }
    }

    fn input(&mut self, tag: &Tag) {
        let value = tag.get("value");
        let (kind, default) = match tag.text("type").to_ascii_lowercase().as_str() {
            "password" => (ControlKind::Password, ""),
            "submit" => (ControlKind::Submit, ""),
            "checkbox" | "radio" if tag.has("checked") => (ControlKind::Other, "on"),
            "checkbox" | "radio" => (ControlKind::Unchecked, "on"),
            "button" | "reset" | "file" | "image" => return,
            _ => (ControlKind::Other, ""),
        };
        self.push(tag, kind, value.unwrap_or_else(|| default.to_owned()));
    }

    fn push(&mut self, tag: &Tag, kind: ControlKind, value: String) {
        if !tag.has("disabled") {
            self.add(self.owner(tag), kind, tag.text("name"), value);
        }
    }

    /// Returns the form of a control: the form that its attribute `form` names, or else the open
    /// form.
    fn owner(&self, tag: &Tag) -> Option<usize> {
        match tag.get("form") {
            Some(id) => self.page.forms.iter().position(|form| form.id == id),
            None => self.open_form,
        }
    }

    fn add(&mut self, owner: Option<usize>, kind: ControlKind, name: String, value: String) {
        self.fields += 1;
        if let Some(form) = owner.and_then(|index| self.page.forms.get_mut(index)) {
            form.controls.push(Control { kind, name, value: Zeroizing::new(value) });
        }
    }

    /// Adds the selected options of an open `<select>`.
    fn close_element(&mut self) {
        let Some(mut element) = self.element.take() else { return };
        let options = mem::take(&mut element.options);
        let mut selected: Vec<&SelectOption> =
            options.iter().filter(|option| option.is_selected && !option.is_disabled).collect();
        if !element.is_multiple {
            // The last selected option is sent. If no option is selected, the first one is sent.
            let default = options.iter().find(|option| !option.is_disabled);
            selected = selected.last().copied().or(default).into_iter().collect();
        }
        for option in selected {
            let text = || option.text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            let value = option.value.clone().unwrap_or_else(text);
            self.add(element.owner, ControlKind::Other, element.name.clone(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<!doctype html><title>Sign in <form></title><base href="/app/">
<script>document.write('<form><input type="password" name="pass">')</script>
<!-- <form><input type=password name=pass></form> -->
<form action="/search"><input name="q"><button>Search</button></form>
<FORM Method="POST" action=" login.php?a=1&amp;b=2 " id="login">
<input type="hidden" name="token" value="a+b&quot;&#x2F;&amp;&eacute;">
<input name="user" value="preset"><input type=password name="pass">
<input type=checkbox name=keep checked><input type=checkbox name=other value=1>
<input type=radio name=r value=1><input type=radio name=r value=2 checked>
<select name=lang><option value=de>Deutsch<option selected value=en>English</select>
<select name=driver><option>My  SQL</option><option>Other</option></select>
<select name=many multiple><option selected>a<option>b<option selected>c</select>
<textarea name=note>
<input name=inside> x &lt;</textarea>
<input name=gone disabled><input type=file name=f><input type=button name=b value=B><input type=image name=i>
<form><input name=nested value=n></form>
<input type=submit name=late>
<input type=submit form=login name=go value="Sign in"><button form=login name=alt value=2>Other</button>
"#;

    fn defaults(html: &str, submit: &SubmitChoice) -> Result<Vec<(String, String)>, String> {
        let page = PageForms::parse(html).unwrap();
        let fields = page.choose(&FormChoice::Password, "pass")?.defaults(submit)?;
        Ok(fields.into_iter().map(|(name, value)| (name, value.to_string())).collect())
    }

    #[test]
    fn the_fields_of_the_form_with_the_password_are_sent_as_a_browser_does() {
        let page = PageForms::parse(PAGE).unwrap();
        assert_eq!(page.base.as_deref(), Some("/app/"));
        assert_eq!(page.choose(&FormChoice::Password, "pass").unwrap().action, "login.php?a=1&b=2");
        let sent = defaults(PAGE, &SubmitChoice::First).unwrap();
        let expected = [
            ("token", "a+b\"/&é"),
            ("user", "preset"),
            ("pass", ""),
            ("keep", "on"),
            ("r", "2"),
            ("lang", "en"),
            ("driver", "My SQL"),
            ("many", "a"),
            ("many", "c"),
            ("note", "<input name=inside> x <"),
            ("nested", "n"),
            ("go", "Sign in"),
        ];
        assert_eq!(sent, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn one_button_is_sent() {
        let last = |submit: SubmitChoice| defaults(PAGE, &submit).map(|fields| fields.last().unwrap().0.clone());
        assert_eq!(last(SubmitChoice::Name("alt".to_owned())).unwrap(), "alt");
        assert_eq!(last(SubmitChoice::None).unwrap(), "nested");
        let error = last(SubmitChoice::Name("no".to_owned())).unwrap_err();
        assert_eq!(error, "submit: the form has no button \"no\"; its buttons: \"go\", \"alt\"");
    }

    #[test]
    fn forms_are_chosen_by_field_id_or_name() {
        let html = "<form name=a action=1><input name=x></form><form id=b action=2><input name=y></form>";
        let page = PageForms::parse(html).unwrap();
        let action = |choice: FormChoice| page.choose(&choice, "pw").map(|form| form.action.clone());
        assert_eq!(action(FormChoice::Has("y".to_owned())).unwrap(), "2");
        assert_eq!(action(FormChoice::Id("b".to_owned())).unwrap(), "2");
        assert_eq!(action(FormChoice::Name("a".to_owned())).unwrap(), "1");
        let error = action(FormChoice::Password).unwrap_err();
        assert_eq!(
            error,
            "the login page has no form with the password field \"pw\". Its 2 forms have these password fields: none"
        );
    }

    #[test]
    fn a_form_that_would_show_the_password_in_a_url_is_refused() {
        let field = "<input type=password name=pass>";
        assert!(defaults(&format!("<form>{field}"), &SubmitChoice::First).unwrap_err().contains("GET"));
        let multipart = format!("<form method=post enctype=multipart/form-data>{field}");
        assert!(defaults(&multipart, &SubmitChoice::First).unwrap_err().contains("multipart"));
        assert!(PageForms::parse(&"<input name=a>".repeat(MAX_FIELDS + 1)).is_err());
    }

    #[test]
    fn fields_are_encoded() {
        let field = |name: &str, value: &str| (name.to_owned(), Zeroizing::new(value.to_owned()));
        let body = encode(&vec![field("auth[user]", "ü+ /&=%"), field("empty", ""), field("*-._", "\n")]);
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!(text, "auth%5Buser%5D=%C3%BC%2B+%2F%26%3D%25&empty=&*-._=%0A");
    }
}
