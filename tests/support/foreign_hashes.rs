//! Hashes of one password by other programs, with their commands. Costs are low, so that a check
//! takes milliseconds.

#![allow(dead_code, reason = "each test binary uses its own part of the fixture")]

/// The password of all hashes.
pub(crate) const IMPORTED_PASSWORD: &str = "correct horse battery";

/// Pairs of the reported scheme and the hash.
pub(crate) const FOREIGN_HASHES: &[(&str, &str)] = &[
    // htpasswd -nbB -C 5 (Apache 2.4.71)
    ("bcrypt", "$2y$05$pDxgKXJVyyzFE1ggU/xIy.ZLmy2WA7tZtd/V00ITmjkpbd5Ev7urG"),
    // passlib.hash.bcrypt.using(rounds=5) of passlib 1.7.4 with bcrypt 4.0.1, and with ident='2a'
    ("bcrypt", "$2b$05$SuXRVWzbtNck6EPqX9G29.cXsM4vpxaqv8Z6JcMsAOf9llmWvSY8S"),
    ("bcrypt", "$2a$05$VH4yc9k7e/iHAYu5GLbuIuLfRG26q2F9GBcG4KwWNHjQLrSH0puh2"),
    // slappasswd -h '{CRYPT}' -c '$2b$05$%.22s' (OpenLDAP 2.5.13)
    ("bcrypt", "{CRYPT}$2b$05$niG9RUMnZwfgQUDizcmqZ.3speHYFT6eesJs5gmgWjC.FKBwNMul."),
    // htpasswd -nb5
    (
        "sha512-crypt",
        "$6$MLONQAWosi7BYGQY$tpr3mAgxqwGNEjrtfqOjeZS/1aaaGW7pipm2qGMg5OH75zw0OpC36lwRAciRjWl9xrJWYk3xj6vC.vf.krXeF0",
    ),
    // openssl passwd -6 -salt Zu3kQp1xWmT9aVbe (OpenSSL 3.0)
    (
        "sha512-crypt",
        "$6$Zu3kQp1xWmT9aVbe$QZdbuYU4qxZl3jFIUNypMOon9rj5STnerlMQq0oM.iY41NEMmtKVk6ntPhgYiuzx0nO5l5A/Vp5dxVkaojDMb1",
    ),
    // passlib.hash.sha512_crypt.using(rounds=1000)
    (
        "sha512-crypt",
        "$6$rounds=1000$Xt3U.MnH22vQddVL$DmrFpndeKFtet.wDvcOa1ua7H48g8kat6EUDaw9wSJhnx0Tg26kenxO1phq5cfz2BDtlKzpojZ3h6osKkgxz21",
    ),
    // slappasswd -h '{CRYPT}' -c '$6$%.16s'
    (
        "sha512-crypt",
        "{CRYPT}$6$.dDAVh7HRv5zYtwW$9.86w3tI79qmTLOQ/cLwN9faSad2aR27FIC.L5OYB1oMorxmP41dzU/8YRr815TZ3x/l6JrAGvNXPqS4Qt.3H.",
    ),
    // htpasswd -nb2
    ("sha256-crypt", "$5$086obJrHXyp8Az4q$wJQQCtm1v4IgX9f2Uk.IBemYUWP3gTxnEpNd1c0tIc/"),
    // openssl passwd -5 -salt Zu3kQp1xWmT9aVbe
    ("sha256-crypt", "$5$Zu3kQp1xWmT9aVbe$ifwIbjyclxmr8ojAjNleV3HwzDOEC8aZR3QxdO7DDaA"),
    // slappasswd -h '{SSHA}', '{SHA}' (the same as htpasswd -nbs); with pw-sha2 '{SSHA256}', '{SSHA512}'
    ("{SSHA}", "{SSHA}3sziG0LBD8aJKms7qUVUc6jvnDlaSwlF"),
    ("{SHA}", "{SHA}mN7MYuzjmaIu0w1JDvMzvn/ec4U="),
    ("{SSHA256}", "{SSHA256}8QgAFoH5lStUkAedhI0SNCAw4D6JXRX7zpRK77Vrqp4b46joaXajnA=="),
    (
        "{SSHA512}",
        "{SSHA512}Hmm0ZoY//y5/4k819IQcwP+xaRluTmr06acHGrK1zbWJ3g14kSsryK7L708/7o5dHpph2REdk2nrPFqShKraDP8v3emuYjdj",
    ),
    // slappasswd -h '{PBKDF2-SHA256}' with pw-pbkdf2
    ("PBKDF2-SHA256", "{PBKDF2-SHA256}10000$OmhaGHJSJ/LrlOsnT90ejg$5sn16U.ZZywbT/kZe4M1.i2iPUCHXgv3v425K3I9oHc"),
    // passlib.hash.pbkdf2_sha1, _sha256 and _sha512.using(rounds=1000), ldap_pbkdf2_sha1 and _sha512
    ("PBKDF2-SHA1", "$pbkdf2$1000$.H8vhdBayxmDsNa6t7ZWqg$OvHu28RznIoLg6JXg3GfuxxSs8o"),
    ("PBKDF2-SHA256", "$pbkdf2-sha256$1000$d26tFUII4dwbQ6j1PifkfA$0bGcbV3Vlc7oEsx2QAkvGiEbagzHwMsVlTljXRkyI1U"),
    (
        "PBKDF2-SHA512",
        "$pbkdf2-sha512$1000$2dv7v/e.1/pf653zPuccQw$w45oq8otUx3eBaJ8fYuVsdbvwHlNZ4u2Z2JESO7d2ALmbLIN6V33VA6mf1RIwzL0zkJAFU4cjeRF9l6kM/CV2w",
    ),
    ("PBKDF2-SHA1", "{PBKDF2}1000$Y.zdG.O8N.Z8LwWAkJKS8g$XDikgZuQ5iZCWVbnyPK82ozHG9Y"),
    (
        "PBKDF2-SHA512",
        "{PBKDF2-SHA512}1000$QojxHsP4v/deS2ltDaFUqg$ZoZwcUX6YVf0Gp96GJ75CkTd2kfE9uGfG87Vme2LwuVHakwjkxhKp3Zv5In8K7SZysijy600oeW5FM0c0nB/CA",
    ),
    // passlib's hash in the PHC string format.
    ("PBKDF2-SHA256", "$pbkdf2-sha256$i=1000,l=32$d26tFUII4dwbQ6j1PifkfA$0bGcbV3Vlc7oEsx2QAkvGiEbagzHwMsVlTljXRkyI1U"),
    // Django's PBKDF2PasswordHasher and PBKDF2SHA1PasswordHasher with 1000 iterations
    ("PBKDF2-SHA256", "pbkdf2_sha256$1000$seasalt12345$YtOyTd8OUYnXnZ26vcksSMHyE7L/PId9xDjpPKK6Sb0="),
    ("PBKDF2-SHA1", "pbkdf2_sha1$1000$seasalt12345$JY8+dRLLhBjDFY0psoyuo6A4WXI="),
    // slappasswd -h '{ARGON2}' with argon2.so m=4096 t=2 p=1
    (
        "argon2i",
        "{ARGON2}$argon2i$v=19$m=4096,t=2,p=1$xcYU/GkGjw/k6CXIq7BeIw$bueCKeEXsfie91+G75X6FSU9uJBKj9FU7P2mgEebNjY",
    ),
    // passlib.hash.argon2.using(rounds=1, memory_cost=1024, parallelism=1), and with type='D'
    ("argon2id", "$argon2id$v=19$m=1024,t=1,p=1$PidEqFUKISSkNAYgRGhNiQ$+7XIXXb49Vzfvbqkb/fNVWRPuiEJxt42QAmk1bbjDHQ"),
    ("argon2d", "$argon2d$v=19$m=1024,t=1,p=1$EWLM2Rvj/P+/N4ZwTgnh3A$5buU2PlA3JsAl12zinCc6eq8VkX00uS7xGG0PM24AKk"),
];

/// Hashes of the password that are rejected: htpasswd -nbm and -nbd, openssl passwd -1,
/// slappasswd's {SMD5}, and the plain password.
pub(crate) const REFUSED_HASHES: &[&str] = &[
    "$apr1$QOvJoMi1$RMrlIWqejqBoLECOZktDo1",
    "2y0daf4p3LVYc",
    "$1$abcdefgh$E2IUOVGWn4QIROUcRm1wO/",
    "{SMD5}WETcgC6TNeaHQKdPZd+7HIIwZsw=",
    IMPORTED_PASSWORD,
];
