-- Each request contains a random token of the file TOKENS.
local tokens = {}
for line in io.lines(os.getenv("TOKENS")) do tokens[#tokens + 1] = "Bearer " .. line end
math.randomseed(1)
function request()
    wrk.headers["Authorization"] = tokens[math.random(#tokens)]
    return wrk.format()
end
