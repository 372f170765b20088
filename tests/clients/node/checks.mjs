// What the programs for ioredis and node-redis share: run each check, print its line, end.
import assert from 'node:assert/strict';

export { assert };

export const [host, port] = [process.argv[2], Number(process.argv[3])];

// All byte values, and what looks like protocol.
export const binary = Buffer.concat([
  Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
  Buffer.from('\r\n$3\r\n*1\r\n'),
]);

export const big = Buffer.alloc(4 << 20, 'some text that repeats itself; ');

// Runs the checks in their order; `finish` closes what `main` opened, so that the program ends.
export async function run(checks, finish) {
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`FAIL ${name}: ${String(error).replaceAll('\n', '\\n')}`);
    }
  }
  await finish();
  console.log('end');
}
