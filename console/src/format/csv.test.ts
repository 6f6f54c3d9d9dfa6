import { expect, it } from "vitest";
import { csv } from "./csv";

it("quotes what RFC 4180 wants quoted", () => {
  expect(
    csv(
      ["Name", "Cost"],
      [
        ['a "b", c', 0.5],
        [null, 0],
      ],
    ),
  ).toBe('Name,Cost\r\n"a ""b"", c",0.5\r\n,0\r\n');
});

it("keeps a spreadsheet from computing text", () => {
  expect(csv(["Name"], [["=1+1"], ["@x"], [-3]])).toBe("Name\r\n'=1+1\r\n'@x\r\n-3\r\n");
});
