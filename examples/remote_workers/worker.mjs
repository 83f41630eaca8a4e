// A worker in JavaScript, without any library: it leases runs of the workflow "render" over HTTP.
// HOLDFAST_URL and HOLDFAST_API_KEY name the server and a key with the role "worker".
const base = process.env.HOLDFAST_URL.replace(/\/$/, "") + "/api/v1";
const seconds = Number(process.env.WORK_SECONDS ?? 0);
const ttl = process.env.LEASE_TTL ?? "30s";

async function post(path, body = {}, headers = {}) {
  const response = await fetch(base + path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: {
      Authorization: `Bearer ${process.env.HOLDFAST_API_KEY}`,
      "Content-Type": "application/json",
      ...headers,
    },
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${answer.type}: ${answer.detail}`);
  return answer;
}

async function render(input) {
  console.log("render", input.size);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  return { url: `image-${input.size}.png`, by: "node" };
}

const offer = { worker: "node", workflows: ["render"], ttl };
const { remote_worker: id } = await post("/remote-workers", offer);
const renewal = setInterval(() => post(`/remote-workers/${id}/renew`).catch(() => {}), 1000);

for (let number = 1; ; number++) {
  // A repeated claim with the same key gets the same leases.
  const key = { "Idempotency-Key": String(number) };
  const { items } = await post(`/remote-workers/${id}/claim`, { limit: 16, wait: "20s" }, key);
  const completions = [];
  for (const lease of items) {
    try {
      completions.push({ proof: lease.proof, result: await render(lease.input) });
    } catch (error) {
      const body = { kind: "transient", message: String(error) };
      await post(`/leases/${lease.proof}/fail`, body);
    }
  }
  if (completions.length) await post(`/remote-workers/${id}/complete`, { completions });
}
