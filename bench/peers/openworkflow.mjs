// OpenWorkflow on SQLite, by its own defaults: WAL, synced. One process, many runs at once.
// It asks for results and for work once a second or less; here the end is read every millisecond,
// and a run that was started alone is claimed at once.

import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const given = JSON.parse(process.argv[2]);
const require = createRequire(given.modules + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { OpenWorkflow } = await load("openworkflow");
const { BackendSqlite } = await load("openworkflow/sqlite");

const backend = BackendSqlite.connect(given.url);
const ow = new OpenWorkflow({ backend });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const steps = ow.defineWorkflow({ name: "steps" }, async ({ input, step }) => {
  for (let number = 0; number < input.count; number++) {
    await step.run({ name: `s${number}` }, async () => number);
  }
  return input.count;
});

const logged = ow.defineWorkflow({ name: "logged" }, async ({ input, step }) => {
  for (let number = 0; number < 5; number++) {
    await step.run({ name: `s${number}` }, async () => {
      appendFileSync(given.log, `${input.run} ${number}\n`);
      return number;
    });
    appendFileSync(given.log + "-recorded", `${input.run} ${number}\n`);
  }
  return 5;
});

async function ended(handles) {
  for (const handle of handles) {
    for (;;) {
      const run = await backend.getWorkflowRun({ workflowRunId: handle.workflowRun.id });
      if (run.status === "completed") break;
      if (run.status === "failed") throw new Error("a run has failed");
      await pause(1);
    }
  }
}

async function metered(count, work) {
  const cpu = process.cpuUsage();
  const began = performance.now();
  await work();
  const used = process.cpuUsage(cpu);
  return { count, wall: (performance.now() - began) / 1e3, cpu: (used.user + used.system) / 1e6 };
}

async function alone(worker, count) {
  const handle = await steps.run({ count });
  await worker.tick();
  await ended([handle]);
}

async function together(runs, count) {
  const handles = [];
  for (let number = 0; number < runs; number++) handles.push(await steps.run({ count }));
  const worker = ow.newWorker({ concurrency: given.concurrency });
  await worker.start();
  await ended(handles);
  worker.stop();
}

const work = {
  async sequence() {
    const worker = ow.newWorker({ concurrency: 1 });
    await alone(worker, given.steps);
    let made = 0;
    const figures = await metered(0, async () => {
      const deadline = performance.now() + given.seconds * 1e3;
      while (performance.now() < deadline) {
        await alone(worker, given.steps);
        made += given.steps;
      }
    });
    return { ...figures, count: made };
  },
  async at_once() {
    await together(10, given.steps);
    return metered(given.n, () => together(given.n, given.steps));
  },
  async fill() {
    for (let run = 0; run < given.n; run++) await logged.run({ run });
    return {};
  },
  async drain() {
    await ow.newWorker({ concurrency: given.concurrency }).start();
    console.log("working");
    await new Promise(() => {});
  },
};

console.log("result " + JSON.stringify(await work[given.work]()));
process.exit(0);
