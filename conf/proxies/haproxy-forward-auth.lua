-- Action `sealgate APP HOST`: asks Sealgate whether the request may be forwarded to the application.
-- Sets txn.sealgate to APP and replaces the request's headers, or to "/" if the request is refused.

local SEALGATE = "http://127.0.0.1:8080"

-- Time for a decision, milliseconds.
local TIMEOUT = 10000

-- Headers that describe the connection or the body of the client's request.
local NOT_SENT = { "connection", "content-length", "transfer-encoding", "te", "trailer", "expect", "keep-alive", "upgrade" }

-- Headers of a decision that replace those of the client. An empty one is removed. Add the names in identity_headers
-- and app_password_header of the application.
local REPLACED = {
    "x-forwarded-user", "x-forwarded-email", "x-forwarded-name", "x-forwarded-groups",
    "x-sealgate-assertion", "cookie", "authorization",
}

core.register_action("sealgate", { "http-req" }, function(txn, app, host)
    txn:set_var("txn.sealgate", "/")
    local headers = txn.http:req_get_headers()
    for _, name in ipairs(NOT_SENT) do
        headers[name] = nil
    end
    headers["host"] = { [0] = host }
    headers["x-forwarded-host"] = { [0] = host }
    headers["x-forwarded-method"] = { [0] = txn.sf:method() }
    headers["x-forwarded-uri"] = { [0] = txn.sf:pathq() }
    local decision = core.httpclient():get{
        url = SEALGATE .. "/.sealgate/auth?fields=request&app=" .. app,
        headers = headers,
        timeout = TIMEOUT,
    }
    -- Every decision of Sealgate that permits a request has an assertion, which may be empty.
    if not decision or decision.status ~= 200 or not decision.headers["x-sealgate-assertion"] then
        return
    end
    for _, name in ipairs(REPLACED) do
        local values = decision.headers[name]
        if values and values[0] and values[0] ~= "" then
            txn.http:req_set_header(name, values[0])
        else
            txn.http:req_del_header(name)
        end
    end
    txn:set_var("txn.sealgate", app)
end, 2)
