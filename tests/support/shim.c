/* A PKCS#11 module that forwards every call to SoftHSM. At run time a test can make it slow, hang, fail, return wrong
 * results or disappear. It records errors of the caller: concurrent use of a session by two threads, and finalizing
 * the module during a call.
 *
 * The test and the module share a file of 64-bit words next to the library: PATH.so and PATH.so.control. Words 0 to 15
 * are the enum below; then each function has eight words, five of them used. shim.rs has the same numbers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <p11-kit/pkcs11.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 512
#define FOREVER UINT64_MAX
#define SESSIONS 65536

enum {
    GONE,       /* return value of every call while the device is absent; 0: it is present */
    WRONG,      /* number of signatures to make wrong: well-formed, but over another digest */
    EMPTY,      /* number of searches that find nothing */
    UNDRAINED,  /* not 0: a failing C_Sign leaves its operation active, which PKCS#11 forbids, but some modules do */
    RELEASED,   /* calls that hang resume when this changes */
    FLAGS,      /* additional CKF_ flags of the token */
    MOST,       /* maximum number of open sessions; 0: no limit */
    HANGING,    /* output: number of calls that hang now */
    SHARED,     /* output: number of concurrent uses of a session by a second thread */
    UNDER_CALL, /* output: number of times the module was finalized during a call */
    OPEN,       /* output: number of open sessions */
};

/* The functions that a test can control, in the order of their words. */
enum {
    INITIALIZE, FINALIZE, GET_SLOT_LIST, GET_TOKEN_INFO, OPEN_SESSION, CLOSE_SESSION, LOGIN, FIND_OBJECTS_INIT,
    FIND_OBJECTS, FIND_OBJECTS_FINAL, GET_ATTRIBUTE_VALUE, SIGN_INIT, SIGN, GENERATE_KEY_PAIR,
};

enum { CODE, TIMES, LATE, HANG, CALLS };

static _Atomic uint64_t *words;
static CK_FUNCTION_LIST *real;
static CK_FUNCTION_LIST ours;
static atomic_bool broken;
static atomic_int inside;
static atomic_char busy[SESSIONS];

static _Atomic uint64_t *rule(int function, int part) { return &words[16 + 8 * function + part]; }

/* Uses up one of the remaining repetitions of an injected fault. Returns 0 if there are none. */
static int take(_Atomic uint64_t *left) {
    uint64_t now = atomic_load(left);
    while (now != 0) {
        if (now == FOREVER || atomic_compare_exchange_weak(left, &now, now - 1))
            return 1;
    }
    return 0;
}

/* Returns the result of a call before the real module is called, or CKR_OK to call it. */
static CK_RV verdict(int function) {
    atomic_fetch_add(rule(function, CALLS), 1);
    if (take(rule(function, HANG))) {
        uint64_t released = atomic_load(&words[RELEASED]);
        atomic_fetch_add(&words[HANGING], 1);
        while (atomic_load(&words[RELEASED]) == released)
            usleep(2000);
        atomic_fetch_sub(&words[HANGING], 1);
    }
    uint64_t late = atomic_load(rule(function, LATE));
    if (late != 0)
        usleep((useconds_t)late);
    if (take(rule(function, TIMES)))
        return (CK_RV)atomic_load(rule(function, CODE));
    return CKR_OK;
}

/* A device that disappeared answers no calls until it has returned and the module is initialized again. */
static CK_RV presence(void) {
    uint64_t code = atomic_load(&words[GONE]);
    if (code != 0)
        atomic_store(&broken, 1);
    return atomic_load(&broken) ? (code != 0 ? (CK_RV)code : CKR_DEVICE_ERROR) : CKR_OK;
}

static void begin(void) { atomic_fetch_add(&inside, 1); }

static CK_RV end(CK_RV answer) {
    atomic_fetch_sub(&inside, 1);
    return answer;
}

static void enter(CK_SESSION_HANDLE session) {
    begin();
    if (atomic_exchange(&busy[session % SESSIONS], 1))
        atomic_fetch_add(&words[SHARED], 1);
}

static CK_RV leave(CK_SESSION_HANDLE session, CK_RV answer) {
    atomic_store(&busy[session % SESSIONS], 0);
    return end(answer);
}

/* A call in a session: injected faults first, then the real module. */
#define IN_SESSION(function, session, call)                                                                            \
    enter(session);                                                                                                    \
    CK_RV answer = verdict(function);                                                                                  \
    if (answer == CKR_OK)                                                                                              \
        answer = presence();                                                                                           \
    if (answer == CKR_OK)                                                                                              \
        answer = real->call;                                                                                           \
    return leave(session, answer)

static CK_RV initialize(void *arguments) {
    CK_RV answer = verdict(INITIALIZE);
    if (answer != CKR_OK)
        return answer;
    answer = real->C_Initialize(arguments);
    if (answer == CKR_OK) {
        atomic_store(&broken, 0);
        atomic_store(&words[OPEN], 0);
        presence();
    }
    return answer;
}

static CK_RV finalize(void *reserved) {
    if (atomic_load(&inside) != 0)
        atomic_fetch_add(&words[UNDER_CALL], 1);
    CK_RV answer = verdict(FINALIZE);
    return answer != CKR_OK ? answer : real->C_Finalize(reserved);
}

static CK_RV get_slot_list(unsigned char present, CK_SLOT_ID *slots, unsigned long *count) {
    begin();
    CK_RV answer = verdict(GET_SLOT_LIST);
    if (answer == CKR_OK && presence() != CKR_OK)
        *count = 0;
    else if (answer == CKR_OK)
        answer = real->C_GetSlotList(present, slots, count);
    return end(answer);
}

static CK_RV get_token_info(CK_SLOT_ID slot, CK_TOKEN_INFO *token) {
    begin();
    CK_RV answer = verdict(GET_TOKEN_INFO);
    if (answer == CKR_OK)
        answer = presence();
    if (answer == CKR_OK)
        answer = real->C_GetTokenInfo(slot, token);
    if (answer == CKR_OK)
        token->flags |= atomic_load(&words[FLAGS]);
    return end(answer);
}

static CK_RV open_session(CK_SLOT_ID slot, CK_FLAGS flags, void *application, CK_NOTIFY notify,
                          CK_SESSION_HANDLE *session) {
    begin();
    CK_RV answer = verdict(OPEN_SESSION);
    uint64_t most = atomic_load(&words[MOST]);
    if (answer == CKR_OK)
        answer = presence();
    if (answer != CKR_OK)
        return end(answer);
    /* Reserve a slot first, because two concurrent callers would otherwise both find the last one. */
    if (atomic_fetch_add(&words[OPEN], 1) >= most && most != 0)
        answer = CKR_SESSION_COUNT;
    else
        answer = real->C_OpenSession(slot, flags, application, notify, session);
    if (answer != CKR_OK)
        atomic_fetch_sub(&words[OPEN], 1);
    return end(answer);
}

static CK_RV close_session(CK_SESSION_HANDLE session) {
    enter(session);
    CK_RV answer = verdict(CLOSE_SESSION);
    if (answer == CKR_OK)
        answer = presence();
    if (answer == CKR_OK)
        answer = real->C_CloseSession(session);
    if (answer == CKR_OK)
        atomic_fetch_sub(&words[OPEN], 1);
    return leave(session, answer);
}

static CK_RV login(CK_SESSION_HANDLE session, CK_USER_TYPE user, unsigned char *pin, unsigned long length) {
    IN_SESSION(LOGIN, session, C_Login(session, user, pin, length));
}

static CK_RV find_objects_init(CK_SESSION_HANDLE session, CK_ATTRIBUTE *template, unsigned long count) {
    IN_SESSION(FIND_OBJECTS_INIT, session, C_FindObjectsInit(session, template, count));
}

static CK_RV find_objects(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *found, unsigned long most,
                          unsigned long *count) {
    enter(session);
    CK_RV answer = verdict(FIND_OBJECTS);
    if (answer == CKR_OK)
        answer = presence();
    if (answer == CKR_OK && take(&words[EMPTY]))
        *count = 0;
    else if (answer == CKR_OK)
        answer = real->C_FindObjects(session, found, most, count);
    return leave(session, answer);
}

static CK_RV find_objects_final(CK_SESSION_HANDLE session) {
    IN_SESSION(FIND_OBJECTS_FINAL, session, C_FindObjectsFinal(session));
}

static CK_RV get_attribute_value(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *template,
                                 unsigned long count) {
    IN_SESSION(GET_ATTRIBUTE_VALUE, session, C_GetAttributeValue(session, object, template, count));
}

static CK_RV sign_init(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key) {
    IN_SESSION(SIGN_INIT, session, C_SignInit(session, mechanism, key));
}

static CK_RV sign(CK_SESSION_HANDLE session, unsigned char *data, unsigned long length, unsigned char *signature,
                  unsigned long *space) {
    enter(session);
    CK_RV answer = presence();
    /* A query for the length makes no signature. */
    if (answer != CKR_OK || signature == NULL)
        return leave(session, answer != CKR_OK ? answer : real->C_Sign(session, data, length, NULL, space));
    answer = verdict(SIGN);
    if (answer == CKR_OK)
        answer = presence();
    if (answer != CKR_OK) {
        unsigned char drain[1024];
        unsigned long size = sizeof drain;
        if (atomic_load(&words[UNDRAINED]) == 0)
            real->C_Sign(session, data, length, drain, &size);
        return leave(session, answer);
    }
    unsigned char other[512];
    if (length > 0 && length <= sizeof other && take(&words[WRONG])) {
        memcpy(other, data, length);
        other[length - 1] ^= 1;
        data = other;
    }
    return leave(session, real->C_Sign(session, data, length, signature, space));
}

static CK_RV generate_key_pair(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_ATTRIBUTE *public,
                               unsigned long publics, CK_ATTRIBUTE *private, unsigned long privates,
                               CK_OBJECT_HANDLE *public_key, CK_OBJECT_HANDLE *private_key) {
    IN_SESSION(GENERATE_KEY_PAIR, session,
               C_GenerateKeyPair(session, mechanism, public, publics, private, privates, public_key, private_key));
}

static void fail(const char *why) {
    fprintf(stderr, "fault shim: %s\n", why);
    _exit(70);
}

static void attach(void) {
    Dl_info self;
    char path[4096];
    if (dladdr((void *)&C_GetFunctionList, &self) == 0)
        fail("does not find itself");
    if (snprintf(path, sizeof path, "%s.control", self.dli_fname) >= (int)sizeof path)
        fail("a path too long");
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        fail("no control file beside the library");
    words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (words == MAP_FAILED)
        fail("the control file cannot be mapped");
    void *library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail(dlerror());
    CK_RV (*list)(CK_FUNCTION_LIST **) = (CK_RV (*)(CK_FUNCTION_LIST **))dlsym(library, "C_GetFunctionList");
    if (list == NULL || list(&real) != CKR_OK)
        fail("the real module has no function list");
    ours = *real;
    ours.C_Initialize = initialize;
    ours.C_Finalize = finalize;
    ours.C_GetFunctionList = C_GetFunctionList;
    ours.C_GetSlotList = get_slot_list;
    ours.C_GetTokenInfo = get_token_info;
    ours.C_OpenSession = open_session;
    ours.C_CloseSession = close_session;
    ours.C_Login = login;
    ours.C_FindObjectsInit = find_objects_init;
    ours.C_FindObjects = find_objects;
    ours.C_FindObjectsFinal = find_objects_final;
    ours.C_GetAttributeValue = get_attribute_value;
    ours.C_SignInit = sign_init;
    ours.C_Sign = sign;
    ours.C_GenerateKeyPair = generate_key_pair;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST **list) {
    if (words == NULL)
        attach();
    *list = &ours;
    return CKR_OK;
}
