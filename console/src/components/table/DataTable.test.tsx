import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { useState } from "react";
import { afterEach, expect, it, vi } from "vitest";
import { type Column, DataTable } from "./DataTable";

interface Usage {
  model: string;
  cost: number;
}

const COLUMNS: readonly Column<Usage>[] = [
  { id: "model", header: "Model", value: (row) => row.model },
  { id: "cost", header: "Cost", value: (row) => row.cost, cell: (row) => `$${row.cost}`, isNumber: true },
];
const ROWS: Usage[] = [
  { model: "demo/small", cost: 2 },
  { model: "demo/large", cost: 10 },
];

afterEach(cleanup);

function Sortable({ rows, onDraw }: { rows: readonly Usage[]; onDraw?: () => void }) {
  const [sort, setSort] = useState<string | undefined>();
  onDraw?.();
  return (
    <DataTable
      label="Usage"
      columns={COLUMNS}
      rows={rows}
      rowKey={(row) => row.model}
      sort={sort}
      onSort={setSort}
      csvName="usage"
      empty={<p>Nothing</p>}
    />
  );
}

const models = () =>
  screen
    .getAllByRole("row")
    .slice(1)
    .map((row) => within(row).getAllByRole("cell")[0]?.textContent);

it("sorts by the column that is clicked", () => {
  render(<Sortable rows={ROWS} />);
  expect(models()).toEqual(["demo/small", "demo/large"]);
  fireEvent.click(screen.getByRole("button", { name: "Cost" }));
  expect(models()).toEqual(["demo/large", "demo/small"]);
  expect(screen.getByRole("columnheader", { name: "Cost" }).getAttribute("aria-sort")).toBe("descending");
});

it("does not draw itself again without a reason", async () => {
  const drawn = vi.fn();
  const { rerender } = render(<Sortable rows={ROWS} onDraw={drawn} />);
  rerender(<Sortable rows={[...ROWS]} onDraw={drawn} />);
  rerender(<Sortable rows={[...ROWS]} onDraw={drawn} />);
  await Promise.resolve();
  expect(drawn).toHaveBeenCalledTimes(3);
});

it("says that there is nothing, and offers a CSV otherwise", () => {
  const { rerender } = render(<Sortable rows={[]} />);
  expect(screen.getByText("Nothing")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "CSV" })).toBeNull();
  rerender(<Sortable rows={ROWS} />);
  expect(screen.getByRole("button", { name: "CSV" })).toBeTruthy();
});

it("shows text as text", () => {
  render(<Sortable rows={[{ model: "<img src=x onerror=alert(1)>", cost: 0 }]} />);
  expect(document.querySelector("img")).toBeNull();
  expect(models()).toEqual(["<img src=x onerror=alert(1)>"]);
});
