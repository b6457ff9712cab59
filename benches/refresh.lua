-- Each request is a refresh with one of the tokens of the file TOKENS; the token of its answer waits for its turn behind the others. There
-- must be one more than connections, since wrk looks at a request before it begins. What was not answered at the end is lost: another run
-- needs other tokens.
local tokens, first, last = {}, 1, 0
local function keep(token)
    last = last + 1
    tokens[last] = token
end
for line in io.lines(os.getenv("TOKENS")) do keep(line) end
local fields = { ["Content-Type"] = "application/x-www-form-urlencoded" }

function request()
    local token = tokens[first]
    tokens[first] = nil
    first = first + 1
    fields["Host"] = wrk.headers["Host"]
    return wrk.format("POST", nil, fields, "grant_type=refresh_token&client_id=bench&refresh_token=" .. token)
end

function response(status, headers, body)
    keep(string.match(body, '"refresh_token":"([^"]+)"'))
end
