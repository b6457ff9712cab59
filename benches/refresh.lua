-- Each request refreshes a token of the file TOKENS. The token of the response is appended to the queue.
-- There must be one more token than connections, because wrk creates a request before it begins. Requests
-- without a response at the end are lost, so each run needs new tokens.
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
