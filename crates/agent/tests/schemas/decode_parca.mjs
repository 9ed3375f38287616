// Decodes a WriteRaw request, a gRPC-Web frame, with the schema of Parca's own client: node decode_parca.mjs FILE
import { readFileSync } from "node:fs";
import { register } from "node:module";

// The package is made for bundlers: its imports omit `.js`, and it does not declare ES modules.
const hooks = `
  export const resolve = (name, context, next) => next(name, context).catch(() => next(name + ".js", context));
  export const load = (url, context, next) =>
    next(url, url.includes("/@parca/client/") ? { ...context, format: "module" } : context);`;
register("data:text/javascript," + encodeURIComponent(hooks));
const schema = "./node_modules/@parca/client/dist/parca/profilestore/v1alpha1/profilestore.js";
const { WriteRawRequest } = await import(schema);

const frame = readFileSync(process.argv[2]);
const body = frame.subarray(5);
if (frame[0] !== 0 || frame.readUInt32BE(1) !== body.length) throw new Error("no frame of gRPC for the web");
const request = WriteRawRequest.fromBinary(body, { readUnknownField: "throw" });
const series = request.series.map(({ labels, samples }) => ({
  labels: Object.fromEntries(labels.labels.map(({ name, value }) => [name, value])),
  profiles: samples.map(({ rawProfile }) => Buffer.from(rawProfile).toString("hex")),
}));
console.log(JSON.stringify({ normalized: request.normalized, series }));
