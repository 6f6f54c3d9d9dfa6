// OpenAI's SDK for Node and its realtime sessions, before the demo.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { startGateway } from "./gateway.mjs";

// The SDK always asks for `wss://`, and this gateway listens without TLS.
const options = { createConnection: ({ host, port }) => connect({ host, port }) };
const said = (text) => ({ type: "message", role: "user", content: [{ type: "input_text", text }] });

describe("openai/realtime/ws", () => {
  let gateway;
  before(async () => (gateway = await startGateway()));
  after(() => gateway.stop());

  /** Opens a session, and collects its events. `until` waits for an event of a type. */
  const open = async (model, key = gateway.key) => {
    const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: key });
    const session = await OpenAIRealtimeWS.create(client, { model, options });
    const events = [];
    const waiting = [];
    const take = (event) => {
      events.push(event);
      for (const one of waiting.splice(0)) one();
    };
    session.on("event", take);
    // An error event is thrown unless somebody listens.
    session.on("error", () => {});
    const until = async (type) => {
      for (;;) {
        const at = events.findIndex((event) => event.type === type);
        if (at >= 0) return events.splice(0, at + 1);
        await new Promise((resolve) => waiting.push(resolve));
      }
    };
    return { session, until };
  };

  it("answers texts with texts and with sound", async () => {
    const { session, until } = await open("demo/realtime");
    await until("session.created");
    session.send({ type: "session.update", session: { type: "realtime", output_modalities: ["text"] } });
    await until("session.updated");
    session.send({ type: "conversation.item.create", item: said("Hello there") });
    session.send({ type: "response.create" });
    const events = await until("response.done");
    const deltas = events.filter((event) => event.type === "response.output_text.delta");
    assert.equal(deltas.map((event) => event.delta).join(""), "You said: Hello there");
    const { usage, status } = events.at(-1).response;
    assert.equal(status, "completed");
    assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
    session.send({ type: "response.create", response: { output_modalities: ["audio"] } });
    const spoken = (await until("response.done")).filter((event) => event.type === "response.output_audio.delta");
    assert.ok(spoken.reduce((sum, event) => sum + Buffer.from(event.delta, "base64").length, 0) > 1000);
    session.close();
    await once(session.socket, "close");
  });

  it("takes sound as a turn", async () => {
    const { session, until } = await open("demo/realtime");
    await until("session.created");
    session.send({ type: "input_audio_buffer.append", audio: Buffer.alloc(4800).toString("base64") });
    session.send({ type: "input_audio_buffer.commit" });
    session.send({ type: "response.create" });
    assert.equal((await until("response.done")).at(-1).response.status, "completed");
    session.close();
  });

  it("gives a refusal as an error that names the event", async () => {
    const { session, until } = await open("demo/realtime");
    await until("session.created");
    const failed = new Promise((resolve) => session.on("error", resolve));
    session.send({ type: "session.update", event_id: "mine", session: { type: "realtime", model: "gpt-realtime" } });
    const error = await failed;
    assert.equal(error.error.code, "invalid_value");
    assert.equal(error.error.event_id, "mine");
    // The session stays open.
    session.send({ type: "response.create" });
    await until("response.done");
    session.close();
  });

  it("is refused with the status of the error", async () => {
    const status = async (model, key) => {
      const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: key });
      const session = await OpenAIRealtimeWS.create(client, { model, options });
      session.on("error", () => {});
      const [, response] = await once(session.socket, "unexpected-response");
      session.close();
      return response.statusCode;
    };
    assert.equal(await status("demo/realtime", "sk-wrong"), 401);
    assert.equal(await status("demo/chat", gateway.key), 400);
    assert.equal(await status("demo/none", gateway.key), 404);
  });
});
