// What the basic programs share.
//
// Arguments: HOST PORT.
import { attempt, end, tellVersion } from './checks.mjs';

export const [host, port] = [process.argv[2], Number(process.argv[3])];
export const big = Buffer.alloc(4 << 20, 'some text that repeats itself; ');

// Runs the checks in their order.
export async function run(library, checks) {
  tellVersion(library);
  for (const [name, check] of Object.entries(checks)) await attempt(name, check);
  end();
}
