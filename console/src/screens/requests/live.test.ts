import { expect, it } from "vitest";
import { afterFailure, type LoggedRequest, prepend } from "./live";

const row = (id: number) => ({ request_id: `req_${id}` }) as LoggedRequest;

it("shows the newest row first and forgets the oldest ones", () => {
  expect(prepend([row(1)], [row(2), row(3)]).map((item) => item.request_id)).toEqual([
    "req_3",
    "req_2",
    "req_1",
  ]);
  const many = Array.from({ length: 600 }, (_, index) => row(index));
  const shown = prepend([], many);
  expect(shown).toHaveLength(500);
  expect(shown[0]?.request_id).toBe("req_599");
});

it("takes a second failure for silence, and a refusal for the end", () => {
  expect(afterFailure("open", false)).toBe("connecting");
  expect(afterFailure("connecting", false)).toBe("silent");
  expect(afterFailure("silent", false)).toBe("silent");
  expect(afterFailure("open", true)).toBe("lost");
});
