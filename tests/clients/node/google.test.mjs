// Google's own SDK for Node, as its users use it.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ApiError, FunctionCallingConfigMode, GoogleGenAI, Type } from "@google/genai";
import { startGateway } from "./gateway.mjs";

const model = "demo/chat";
const contents = "Hello there, how are you today?";

describe("Google's SDK for Node", () => {
  let gateway, ai;
  before(async () => {
    gateway = await startGateway();
    ai = connect(gateway.key);
  });
  after(() => gateway.stop());

  const connect = (apiKey, options = {}) =>
    new GoogleGenAI({ apiKey, httpOptions: { baseUrl: gateway.baseURL.replace(/\/v1$/, ""), ...options } });

  it("answers with text and usage, below both versions", async () => {
    for (const apiVersion of ["v1beta", "v1"]) {
      const answer = await connect(gateway.key, { apiVersion }).models.generateContent({ model, contents });
      assert.match(answer.text, /how are you today\?/);
      assert.equal(answer.candidates[0].finishReason, "STOP");
      assert.ok(answer.usageMetadata.promptTokenCount > 0 && answer.usageMetadata.candidatesTokenCount > 0);
      assert.ok(answer.responseId && answer.modelVersion);
    }
  });

  it("streams the same text", async () => {
    const whole = await ai.models.generateContent({ model, contents });
    let text = "";
    let last;
    for await (const chunk of await ai.models.generateContentStream({ model, contents })) {
      text += chunk.text ?? "";
      last = chunk;
    }
    assert.equal(text, whole.text);
    assert.equal(last.candidates[0].finishReason, "STOP");
    assert.deepEqual(last.usageMetadata, whole.usageMetadata);
  });

  it("keeps a chat of streams", async () => {
    const chat = ai.chats.create({ model });
    for (const message of ["My name is Ann.", "What is my name?"]) {
      let text = "";
      for await (const chunk of await chat.sendMessageStream({ message })) text += chunk.text ?? "";
      assert.ok(text.length > 0);
    }
    const curated = chat.getHistory(true);
    assert.equal(curated.filter((content) => content.role === "user").length, 2);
    assert.ok(curated.some((content) => content.role === "model"));
  });

  it("calls a function and reads its result", async () => {
    const parameters = { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] };
    const config = {
      tools: [{ functionDeclarations: [{ name: "get_weather", description: "The weather of a city", parameters }] }],
      toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
    };
    const question = { role: "user", parts: [{ text: "The weather in Paris?" }] };
    const asked = await ai.models.generateContent({ model, contents: [question], config });
    const [call] = asked.functionCalls;
    assert.equal(call.name, "get_weather");
    assert.equal(typeof call.args.city, "string");
    const result = { id: call.id, name: call.name, response: { output: "22 degrees" } };
    const history = [question, asked.candidates[0].content, { role: "user", parts: [{ functionResponse: result }] }];
    const done = await ai.models.generateContent({ model, contents: history, config: { tools: config.tools } });
    assert.ok(done.candidates[0].content.parts.length > 0);
  });

  it("counts tokens, embeds and lists models", async () => {
    assert.ok((await ai.models.countTokens({ model, contents })).totalTokens > 0);
    const { embeddings } = await ai.models.embedContent({ model: "demo/embed", contents: ["one", "two"] });
    assert.equal(embeddings.length, 2);
    assert.ok(embeddings[0].values.length > 0);
    const names = [];
    for await (const listed of await ai.models.list({ config: { pageSize: 2 } })) names.push(listed.name);
    assert.ok(names.includes("models/demo/chat") && names.includes("models/demo/embed"), names.join());
    assert.equal((await ai.models.get({ model })).name, "models/demo/chat");
  });

  it("raises Google's errors, also in a stream", async () => {
    const failed = (status) => (error) => error instanceof ApiError && error.status === status;
    await assert.rejects(connect("sk-wrong").models.generateContent({ model, contents }), failed(401));
    await assert.rejects(ai.models.generateContent({ model: "demo/none", contents }), failed(404));
    await assert.rejects(ai.models.generateContent({ model: "demo/error-429", contents }), failed(429));
    const stream = await ai.models.generateContentStream({ model: "demo/error-mid", contents });
    let finished = false;
    await assert.rejects(async () => {
      for await (const chunk of stream) finished ||= chunk.candidates?.[0].finishReason !== undefined;
    }, failed(502));
    assert.ok(!finished);
  });
});
