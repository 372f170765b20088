// What the programs in JavaScript share; explained in ../python/shared.py.

import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import Redis from "ioredis";

export const NAME = "{survival}";
export const [, , ROLE, TASKS, PACE_MS] = process.argv;
const [KIND, PLACE] = process.env.SURVIVAL_URL.split("://");
const [NODES, GROUP] = PLACE.split("/");
const ADDRESSES = NODES.split(",").map((node) => {
  const [host, port] = node.split(":");
  return { host, port: Number(port) };
});

export function done(number) {
  appendFileSync(process.env.SURVIVAL_DONE, `${number}\n`);
}

/** What ioredis is told of the servers, for one server or a group of sentinels. */
export function options(more = {}) {
  const where = KIND === "redis-sentinel" ? { sentinels: ADDRESSES, name: GROUP } : ADDRESSES[0];
  return { ...where, ...more };
}

/** A client with the library's default settings, but for `more`. */
export function client(more = {}) {
  if (KIND === "redis-cluster") return new Redis.Cluster(ADDRESSES, { redisOptions: more });
  return new Redis(options(more));
}

/** Queues all tasks, each until that raises nothing. */
export async function produce(version, enqueue) {
  console.log(`version ${version}`);
  for (let number = 0; number < Number(TASKS); number++) {
    while (!(await attempted(enqueue, number))) await pause(Number(PACE_MS));
    console.log(`queued ${number}`);
    await pause(Number(PACE_MS));
  }
  console.log("end");
  process.exit(0);
}

async function attempted(enqueue, number) {
  try {
    await enqueue(number);
    return true;
  } catch (error) {
    report(error);
    return false;
  }
}

export function report(error) {
  console.log(`error ${error.name}: ${error.message}`);
}
