import { expect, it } from "vitest";
import { ApiError, errorOf, nextStep } from "./errors";

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

it("adds nothing where the message says what to do", () => {
  expect(nextStep(new ApiError(403, "sign_in_failed", "This link was used already.", null))).toBeUndefined();
  expect(nextStep(new Error("Failed to fetch"))).toMatch(/gateway runs/);
});
