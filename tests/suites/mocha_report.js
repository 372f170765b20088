// A reporter of mocha: writes a line of JSON for each test that ran to the file RESPOOL_REPORT.
//
// Lines come as tests end, so that a run that is killed has told what it knows. A test that is skipped
// is not reported: it says nothing about the server.
const { appendFileSync } = require('node:fs');

module.exports = class {
  constructor(runner) {
    const failed = new Map();
    // A test that ended, but whose clean-up is still to come: the next test's begin shows that it passed as well.
    let ended = null;
    const tell = (test) => {
      const why = failed.get(test);
      const line = { id: test.fullTitle(), passed: why === undefined, why: why ?? '' };
      appendFileSync(process.env.RESPOOL_REPORT, `${JSON.stringify(line)}\n`);
      ended = null;
    };
    const tellEnded = () => ended && tell(ended);

    runner.on('test', tellEnded);
    runner.on('end', tellEnded);
    runner.on('test end', (test) => {
      if (!test.isPending()) ended = test;
    });
    runner.on('fail', (runnable, error) => {
      // A hook's failure is that of its test, of which nothing is heard any more.
      const test = runnable.type === 'hook' ? runnable.ctx.currentTest : runnable;
      if (!test) return;
      failed.set(test, error.message ?? String(error));
      if (test !== runnable) tell(test);
    });
  }
};
