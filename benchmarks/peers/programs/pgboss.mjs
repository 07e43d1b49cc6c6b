// pg-boss; the orders and lines are those of reporting.py.
import { PgBoss } from "pg-boss";

const settings = JSON.parse(process.env.PEER_SETTINGS ?? "{}");
const [order, ...numbers] = process.argv.slice(2);
const [count, size] = numbers.map(Number);
const say = (word, what = "") => process.stdout.write(`${word} ${what}\n`);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const now = () => performance.timeOrigin + performance.now();
const boss = new PgBoss({ connectionString: process.env.PEER_DSN, ...settings.boss });
boss.on("error", console.error);
await boss.start();

async function install() {
  await boss.createQueue("bench", settings.queue ?? {});
}

async function enqueue() {
  const began = performance.now();
  for (let start = 0; start < count; start += size) {
    if (size === 1) await boss.send("bench", {});
    else {
      const jobs = Array.from({ length: Math.min(size, count - start) });
      await boss.insert("bench", jobs.map(() => ({ data: {} })));
    }
  }
  say("took", (performance.now() - began) / 1000);
}

async function send() {
  const [rate, seconds] = [count, size];
  const start = now() + 100;
  for (let turn = 0; turn < rate * seconds; turn++) {
    const wait = start + (1000 * turn) / rate - now();
    if (wait > 0) await sleep(wait);
    await boss.send("bench", { at: now() });
  }
}

async function work() {
  let ran = 0;
  let said = 0;
  setInterval(() => ran !== said && say("ran", (said = ran)), 10);
  await boss.work("bench", settings.work ?? {}, async (jobs) => {
    if (ran === 0) say("first", now() / 1000);
    ran += jobs.length;
    for (const { data } of jobs) if (data?.at) say("late", now() - data.at);
  });
  say("ready");
}

await { install, enqueue, send, work }[order]();
if (order !== "work") process.exit(0);
