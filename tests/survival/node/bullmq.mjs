// BullMQ with its defaults. Its workers want no limit of retries (maxRetriesPerRequest).

import { createRequire } from "node:module";

import { Queue, Worker } from "bullmq";

import { ROLE, NAME, client, done, produce, report } from "./shared.mjs";

const version = createRequire(import.meta.url)("bullmq/package.json").version;

if (ROLE === "worker") {
  const connection = client({ maxRetriesPerRequest: null });
  const worker = new Worker("tasks", async (job) => done(job.data), { connection, prefix: NAME });
  worker.on("error", report);
} else {
  const queue = new Queue("tasks", { connection: client(), prefix: NAME });
  queue.on("error", () => {});
  await produce(version, (number) => queue.add("record", number));
}
