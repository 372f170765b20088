// ioredis with its default retries: a list of tasks, and a worker that waits with BLPOP.

import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";

import { ROLE, NAME, client, done, produce, report } from "./shared.mjs";

const QUEUE = `${NAME}:queue`;
const WAIT_S = 2;
const PAUSE_MS = 100;
const version = createRequire(import.meta.url)("ioredis/package.json").version;
const redis = client();
// Without a listener the library writes these to the standard error itself.
redis.on("error", () => {});

async function work() {
  for (;;) {
    try {
      const taken = await redis.blpop(QUEUE, WAIT_S);
      if (taken) done(Number(taken[1]));
    } catch (error) {
      report(error);
      // The server's word; after any other error an application goes on.
      if (error.name === "ReplyError") process.exit(1);
      await pause(PAUSE_MS);
    }
  }
}

if (ROLE === "worker") await work();
else await produce(version, (number) => redis.rpush(QUEUE, number));
