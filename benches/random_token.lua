-- Each request carries one of the tokens of the file TOKENS, at random.
local tokens = {}
for line in io.lines(os.getenv("TOKENS")) do tokens[#tokens + 1] = "Bearer " .. line end
math.randomseed(1)
function request()
    wrk.headers["Authorization"] = tokens[math.random(#tokens)]
    return wrk.format()
end
