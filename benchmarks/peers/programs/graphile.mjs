// Graphile Worker; the orders and lines are those of reporting.py.
import { appendFileSync } from "node:fs";
import { makeWorkerUtils, run, runMigrations } from "graphile-worker";

const connectionString = process.env.PEER_DSN;
const settings = JSON.parse(process.env.PEER_SETTINGS ?? "{}");
const [order, ...numbers] = process.argv.slice(2);
const [count, size] = numbers.map(Number);
const say = (word, what = "") => process.stdout.write(`${word} ${what}\n`);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const now = () => performance.timeOrigin + performance.now();

async function install() {
  await runMigrations({ connectionString });
}

async function enqueue() {
  const utils = await makeWorkerUtils({ connectionString });
  const began = performance.now();
  for (let start = 0; start < count; start += size) {
    if (size === 1) await utils.addJob("noop", {});
    else {
      const jobs = Array.from({ length: Math.min(size, count - start) });
      await utils.addJobs(jobs.map(() => ({ identifier: "noop", payload: {} })));
    }
  }
  say("took", (performance.now() - began) / 1000);
  await utils.release();
}

async function send() {
  const [rate, seconds] = [count, size];
  const utils = await makeWorkerUtils({ connectionString });
  const start = now() + 100;
  for (let turn = 0; turn < rate * seconds; turn++) {
    const wait = start + (1000 * turn) / rate - now();
    if (wait > 0) await sleep(wait);
    await utils.addJob("noop", { at: now() });
  }
  await utils.release();
}

async function work() {
  let ran = 0;
  let said = 0;
  const noop = async (payload) => {
    if (ran++ === 0) say("first", now() / 1000);
    if (payload.at) say("late", now() - payload.at);
  };
  setInterval(() => ran !== said && say("ran", (said = ran)), 10);
  const { Logger } = await import("graphile-worker");
  const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
  const preset = { worker: { connectionString, ...settings } };
  const runner = await run({ preset, taskList: { noop }, logger });
  say("ready");
  await runner.promise;
}

async function drill() {
  const note = (word, n) =>
    appendFileSync(process.env.PEER_LEDGER, `${word} ${n} ${process.pid} ${now() / 1000}\n`);
  const effect = async ({ n }) => {
    note("began", n);
    await sleep(1000 * settings.seconds);
    note("ended", n);
  };
  const preset = { worker: { connectionString, ...settings.run } };
  await (await run({ preset, taskList: { effect } })).promise;
}

async function stream() {
  const [rate, seconds] = [count, size];
  const ends = now() + 1000 * seconds;
  let utils;
  for (let n = 0; now() < ends; n++) {
    await sleep(1000 / rate);
    try {
      utils ??= await makeWorkerUtils({ connectionString });
      await utils.addJob("effect", { n });
      say("sent", `${n} ${now() / 1000}`);
    } catch {
      // The call was not acknowledged; the pool connects again.
    }
  }
}

await { install, enqueue, send, work, drill, stream }[order]();
if (order !== "work") process.exit(0);
