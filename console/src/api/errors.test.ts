import { expect, it } from "vitest";
import { ApiError, errorOf, nextStep, unanswered } from "./errors";

it("keeps the words of the API", async () => {
  const body = {
    error: { message: "No model 'x'.", type: "invalid_request_error", code: "model_not_found" },
  };
  const response = new Response(JSON.stringify(body), { status: 404, headers: { "x-request-id": "req_1" } });
  const error = await errorOf(response);
  expect(error).toMatchObject({
    status: 404,
    code: "model_not_found",
    message: "No model 'x'.",
    requestId: "req_1",
  });
  expect(nextStep(error)).toBe("Choose a model of the catalogue.");
});

it("has words for an answer that is no JSON", async () => {
  const error = await errorOf(new Response("<html>", { status: 502 }));
  expect(error.message).toBe("The gateway answered with status 502.");
  expect(error.code).toBe("http_502");
});

it("advises no correction where what the address names is gone", () => {
  expect(nextStep(new ApiError(404, "not_found", "No key 'sk-gw-x'.", null))).toBe(
    "It is gone, or the address is wrong. Look for it in its list.",
  );
  expect(nextStep(new ApiError(400, "invalid_value", "No.", null))).toBe(
    "Correct the request and repeat it.",
  );
});

it("says of a call without an answer that the gateway does not answer", () => {
  expect(unanswered(new TypeError("Failed to fetch")).message).toBe("The gateway does not answer.");
  const stopped = new Error("aborted");
  expect(unanswered(stopped)).toBe(stopped);
});

it("adds nothing where the message says what to do", () => {
  expect(nextStep(new ApiError(403, "sign_in_failed", "This link was used already.", null))).toBeUndefined();
  expect(nextStep(new Error("Failed to fetch"))).toMatch(/gateway runs/);
});
