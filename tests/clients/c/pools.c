// hiredis, as an application that knows one server, against every kind of pool behind respool.
//
// Arguments: GROUP=HOST:PORT…; the groups, the checks and the questions to the runner are those of
// ../python/pools.py. The library formats commands and parses replies, and has no other helpers.

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SPREAD = 100, WRITERS = 4, INCREMENTS = 10, RECOVERY_S = 10, MESSAGE_S = 5 };

// The group that is being checked, and where it is.
static const char *group;
static char host[64];
static int port;
// With default settings; shared by the checks of a group.
static redisContext *client;

// What a check returns: null for passed, otherwise why not. The text lives until the next one.
typedef const char *outcome;
static _Thread_local char why[512];
static const char LACKS[] = "lacks: ";

static outcome failed(const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(why, sizeof why, format, words);
    va_end(words);
    return why;
}

static redisContext *connected(void) {
    redisContext *conn = redisConnectWithTimeout(host, port, (struct timeval){.tv_sec = MESSAGE_S});
    if (conn == NULL || conn->err) {
        fprintf(stderr, "%s: %s\n", group, conn ? conn->errstr : "no memory");
        exit(1);
    }
    redisSetTimeout(conn, (struct timeval){.tv_sec = MESSAGE_S});
    return conn;
}

static void show(char *text, size_t size, const redisReply *reply) {
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        snprintf(text, size, "%lld", reply->integer);
        break;
    case REDIS_REPLY_NIL:
        snprintf(text, size, "nil");
        break;
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_ERROR:
        snprintf(text, size, "%s", reply->str);
        break;
    default:
        text[0] = '\0';
        for (size_t i = 0; i < reply->elements; i++) {
            size_t used = strlen(text);
            show(text + used, size - used, reply->element[i]);
            used = strlen(text);
            snprintf(text + used, size - used, i + 1 < reply->elements ? " " : "");
        }
    }
}

// Compares a reply, which is freed, with its text: the elements of an array with blanks between.
static outcome is(redisContext *conn, redisReply *reply, const char *expected) {
    if (reply == NULL) {
        return failed("%s instead of %s", conn->errstr, expected);
    }
    char got[400];
    show(got, sizeof got, reply);
    freeReplyObject(reply);
    return strcmp(got, expected) == 0 ? NULL : failed("got %s, expected %s", got, expected);
}

// One command, written as for redisCommand, and the text of the reply it must get.
static outcome says(redisContext *conn, const char *expected, const char *format, ...) {
    va_list words;
    va_start(words, format);
    redisReply *reply = redisvCommand(conn, format, words);
    va_end(words);
    return is(conn, reply, expected);
}

static outcome next(redisContext *conn, const char *expected) {
    redisReply *reply = NULL;
    redisGetReply(conn, (void **)&reply);
    return is(conn, reply, expected);
}

// Ends the check that it stands in, with the reason, if this one failed.
#define TRY(step)                                                                                  \
    do {                                                                                           \
        outcome of_step = (step);                                                                  \
        if (of_step != NULL) return of_step;                                                       \
    } while (0)

#define KEY "hiredis:%s:"

static outcome connects(void) {
    TRY(says(client, "PONG", "PING"));
    TRY(says(client, "OK", "SET " KEY "s value", group));
    return says(client, "value", "GET " KEY "s", group);
}

// Two channels: after leaving the first, its message must not come before that of the second.
// `kind` is what stands before SUBSCRIBE and `message`: nothing, p or s.
static outcome listen(redisContext *listener, const char *kind) {
    char channels[2][128], expected[400], command[16];
    const char *suffix = *kind == 'p' ? "*" : "";
    const char *publish = *kind == 's' ? "SPUBLISH" : "PUBLISH";
    for (int i = 0; i < 2; i++) {
        snprintf(channels[i], sizeof channels[i], KEY "%schannel:%d", group, kind, i);
        snprintf(command, sizeof command, "%ssubscribe", kind);
        snprintf(expected, sizeof expected, "%s %s%s %d", command, channels[i], suffix, i + 1);
        TRY(says(listener, expected, "%s %s%s", command, channels[i], suffix));
    }
    for (int i = 0; i < 2; i++) {
        redisReply *sent = redisCommand(client, "%s %s text%d", publish, channels[i], i);
        if (sent == NULL || sent->type != REDIS_REPLY_INTEGER) return failed("%s failed", publish);
        freeReplyObject(sent);
        if (*suffix) {
            snprintf(expected, sizeof expected, "pmessage %s* %s text%d", channels[i], channels[i], i);
        } else {
            snprintf(expected, sizeof expected, "%smessage %s text%d", kind, channels[i], i);
        }
        TRY(next(listener, expected));
        if (i == 0) {
            snprintf(command, sizeof command, "%sunsubscribe", kind);
            snprintf(expected, sizeof expected, "%s %s%s 1", command, channels[0], suffix);
            TRY(says(listener, expected, "%s %s%s", command, channels[0], suffix));
            freeReplyObject(redisCommand(client, "%s %s nobody", publish, channels[0]));
        }
    }
    return NULL;
}

static outcome exchange(const char *kind) {
    redisContext *listener = connected();
    outcome said = listen(listener, kind);
    redisFree(listener);
    return said;
}

static outcome subscribe(void) { return exchange(""); }
static outcome psubscribe(void) { return exchange("p"); }
static outcome ssubscribe(void) { return exchange("s"); }

static outcome resp2(void) {
    TRY(says(client, "2", "HSET " KEY "map2 a 1 b 2", group));
    redisReply *map = redisCommand(client, "HGETALL " KEY "map2", group);
    if (map == NULL || map->type != REDIS_REPLY_ARRAY) return failed("HGETALL is no array");
    TRY(is(client, map, "a 1 b 2"));
    TRY(says(client, "nil", "BLPOP " KEY "none 0.05", group));
    return exchange("");
}

static outcome resp3(void) {
#if HIREDIS_MAJOR == 0
    return failed("%sthis version speaks RESP2 only", LACKS);
#else
    redisContext *mine = connected();
    // Messages are replies here: without this the library throws them away.
    redisSetPushCallback(mine, NULL);
    redisReply *hello = redisCommand(mine, "HELLO 3");
    if (hello == NULL || hello->type != REDIS_REPLY_MAP) return failed("HELLO is no map");
    freeReplyObject(hello);
    TRY(says(mine, "2", "HSET " KEY "map3 a 1 b 2", group));
    redisReply *map = redisCommand(mine, "HGETALL " KEY "map3", group);
    if (map == NULL || map->type != REDIS_REPLY_MAP) return failed("HGETALL is no map");
    TRY(is(mine, map, "a 1 b 2"));
    TRY(says(mine, "nil", "BLPOP " KEY "none 0.05", group));
    TRY(listen(mine, ""));
    redisFree(mine);
    return NULL;
#endif
}

static outcome pipeline(void) {
    TRY(says(client, "OK", "SET " KEY "text x", group));
    for (int i = 0; i < SPREAD; i++) {
        redisAppendCommand(client, "SET " KEY "%d %d", group, i, i);
        redisAppendCommand(client, "GET " KEY "%d", group, i);
    }
    redisAppendCommand(client, "INCR " KEY "text", group);
    redisAppendCommand(client, "GET " KEY "text", group);
    for (int i = 0; i < SPREAD; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        TRY(next(client, "OK"));
        TRY(next(client, number));
    }
    TRY(next(client, "ERR value is not an integer or out of range"));
    return next(client, "x");
}

static outcome transaction(void) {
    TRY(says(client, "OK", "MULTI"));
    TRY(says(client, "QUEUED", "SET " KEY "t 1", group));
    TRY(says(client, "QUEUED", "INCR " KEY "t", group));
    TRY(says(client, "OK 2", "EXEC"));
    TRY(says(client, "OK", "MULTI"));
    TRY(says(client, "QUEUED", "SET " KEY "t discarded", group));
    TRY(says(client, "OK", "DISCARD"));
    return says(client, "2", "GET " KEY "t", group);
}

// Adds to the number until its share is done; returns a copy of what went wrong, or null.
static void *increments(void *unused) {
    (void)unused;
    redisContext *mine = connected();
    for (int done = 0; done < INCREMENTS;) {
        outcome said = says(mine, "OK", "WATCH " KEY "w", group);
        redisReply *value = redisCommand(mine, "GET " KEY "w", group);
        if (said != NULL || value == NULL || value->type != REDIS_REPLY_STRING) {
            return strdup(said ? said : "GET failed");
        }
        int number = atoi(value->str);
        freeReplyObject(value);
        redisAppendCommand(mine, "MULTI");
        redisAppendCommand(mine, "SET " KEY "w %d", group, number + 1);
        redisAppendCommand(mine, "EXEC");
        if ((said = next(mine, "OK")) || (said = next(mine, "QUEUED"))) return strdup(said);
        redisReply *exec = NULL;
        redisGetReply(mine, (void **)&exec);
        if (exec == NULL || exec->type == REDIS_REPLY_ERROR) return strdup("EXEC failed");
        done += exec->type == REDIS_REPLY_ARRAY;
        freeReplyObject(exec);
    }
    redisFree(mine);
    return NULL;
}

static outcome watch(void) {
    TRY(says(client, "OK", "SET " KEY "w 0", group));
    pthread_t writers[WRITERS];
    for (int i = 0; i < WRITERS; i++) pthread_create(&writers[i], NULL, increments, NULL);
    outcome said = NULL;
    for (int i = 0; i < WRITERS; i++) {
        void *of_one;
        pthread_join(writers[i], &of_one);
        if (of_one != NULL) {
            said = failed("%s", (char *)of_one);
            free(of_one);
        }
    }
    TRY(said);
    char sum[16];
    snprintf(sum, sizeof sum, "%d", WRITERS * INCREMENTS);
    return says(client, sum, "GET " KEY "w", group);
}

static outcome blocking(void) {
    char popped[200];
    redisContext *waiting = connected();
    redisAppendCommand(waiting, "BLPOP " KEY "list 10", group);
    int written = 0;
    while (!written && redisBufferWrite(waiting, &written) == REDIS_OK) {
    }
    TRY(says(client, "1", "RPUSH " KEY "list x", group));
    snprintf(popped, sizeof popped, KEY "list x", group);
    TRY(next(waiting, popped));
    TRY(says(waiting, "nil", "BLPOP " KEY "none 0.1", group));
    redisFree(waiting);
    return NULL;
}

// The library has no helper for scripts.
static outcome scripts(void) {
    char text[128];
    snprintf(text, sizeof text, "return {KEYS[1], ARGV[1]} -- %ld %s %d", (long)time(NULL), group, getpid());
    redisReply *digest = redisCommand(client, "SCRIPT LOAD %s", text);
    if (digest == NULL || digest->type != REDIS_REPLY_STRING) return failed("SCRIPT LOAD failed");
    for (int i = 0; i < 10; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, KEY "lua%d word", group, i);
        TRY(says(client, expected, "EVALSHA %s 1 " KEY "lua%d word", digest->str, group, i));
        TRY(says(client, expected, "EVAL %s 1 " KEY "lua%d word", text, group, i));
    }
    freeReplyObject(digest);
    return NULL;
}

static outcome round_trip(void) {
    for (int i = 0; i < SPREAD; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        TRY(says(client, "OK", "SET " KEY "%d %d", group, i, i));
        TRY(says(client, number, "GET " KEY "%d", group, i));
    }
    return NULL;
}

// The library leaves it to the application to connect the same context again.
static outcome reconnect(const char *what) {
    char line[16];
    printf("ask restart %s %s\n", what, group);
    if (fgets(line, sizeof line, stdin) == NULL) return failed("no answer of the runner");
    for (time_t deadline = time(NULL) + RECOVERY_S;;) {
        outcome said = round_trip();
        if (said == NULL || time(NULL) > deadline) return said;
        fprintf(stderr, "%s\n", said);
        if (client->err) redisReconnect(client);
        usleep(100 * 1000);
    }
}

static outcome reconnect_server(void) { return reconnect("server"); }
static outcome reconnect_respool(void) { return reconnect("respool"); }
static outcome resubscribe(void) { return failed("%sthe library does not connect again by itself", LACKS); }

static const struct {
    const char *name;
    outcome (*run)(void);
} CHECKS[] = {
    {"connect", connects},
    {"resp2", resp2},
    {"resp3", resp3},
    {"pipeline", pipeline},
    {"transaction", transaction},
    {"watch", watch},
    {"subscribe", subscribe},
    {"psubscribe", psubscribe},
    {"ssubscribe", ssubscribe},
    {"blocking", blocking},
    {"scripts", scripts},
    {"reconnect_server", reconnect_server},
    {"reconnect_respool", reconnect_respool},
    {"resubscribe", resubscribe},
};

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("version %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    for (int i = 1; i < count; i++) {
        group = strtok(arguments[i], "=");
        const char *address = strtok(NULL, "=");
        if (address == NULL || sscanf(address, "%63[^:]:%d", host, &port) != 2) return 2;
        client = connected();
        for (size_t j = 0; j < sizeof CHECKS / sizeof *CHECKS; j++) {
            const char *name = CHECKS[j].name;
            outcome said = CHECKS[j].run();
            if (said == NULL) {
                printf("ok %s:%s\n", group, name);
            } else if (strncmp(said, LACKS, strlen(LACKS)) == 0) {
                printf("none %s:%s: %s\n", group, name, said + strlen(LACKS));
            } else {
                printf("FAIL %s:%s: %s\n", group, name, said);
            }
        }
        redisFree(client);
    }
    puts("end");
    return 0;
}
