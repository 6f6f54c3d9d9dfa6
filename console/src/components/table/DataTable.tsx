import {
  type ColumnDef,
  getCoreRowModel,
  getSortedRowModel,
  type Row,
  useReactTable,
} from "@tanstack/react-table";
import { type ReactNode, useMemo, useState } from "react";
import { type Cell, csv, download } from "@/format/csv";
import { Button } from "../Button";
import { PlainRows, VirtualRows } from "./Rows";
import { compareCells, nextSort, parseSort, type Sort } from "./sorting";

export interface Column<T> {
  id: string;
  header: string;
  /** What the column sorts by and what its CSV holds. */
  value: (row: T) => Cell;
  /** What the reader sees; the value itself by default. */
  cell?: (row: T) => ReactNode;
  isNumber?: boolean;
}

interface DataTableProps<T> {
  /** The accessible name of the table. */
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  sort?: Sort | undefined;
  onSort?: (sort: Sort | undefined) => void;
  /** The name of the CSV file without its ending; without a name there is no CSV. */
  csvName?: string;
  /** What stands in the place of a table without rows. */
  empty?: ReactNode;
  /** Controls beside the CSV. */
  tools?: ReactNode;
}

/** More rows than this are drawn only where the reader looks. */
const VIRTUAL_FROM = 60;

function definitions<T>(columns: readonly Column<T>[]): ColumnDef<T>[] {
  return columns.map((column) => ({
    id: column.id,
    header: column.header,
    accessorFn: column.value,
    cell: ({ row }) => (column.cell ? column.cell(row.original) : (column.value(row.original) ?? "–")),
    sortingFn: (a: Row<T>, b: Row<T>, id: string) => compareCells(a.getValue<Cell>(id), b.getValue<Cell>(id)),
  }));
}

/** A table whose columns sort, whose rows go into a CSV file, and which stays fast with 100,000 rows. */
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, rowKey, sort, onSort, csvName, empty, tools } = props;
  const [scroller, setScroller] = useState<HTMLElement | null>(null);
  const order = useMemo(() => parseSort(sort), [sort]);
  const sorting = useMemo(() => (order ? [{ id: order.column, desc: order.isDescending }] : []), [order]);
  const table = useReactTable({
    data: rows as T[],
    columns: useMemo(() => definitions(columns), [columns]),
    getRowId: rowKey,
    state: { sorting },
    // There are no pages; without this every new order sets a state of the table.
    autoResetPageIndex: false,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  });
  const sorted = table.getRowModel().rows;
  const isVirtual = sorted.length > VIRTUAL_FROM;
  const numbers = useMemo(() => new Set(columns.filter((c) => c.isNumber).map((c) => c.id)), [columns]);

  function save() {
    const lines = sorted.map((row) => columns.map((column) => column.value(row.original)));
    download(
      `${csvName}.csv`,
      csv(
        columns.map((c) => c.header),
        lines,
      ),
    );
  }

  if (rows.length === 0 && empty) return empty;
  return (
    <div className="flex flex-col gap-2">
      {csvName || tools ? (
        <div className="flex flex-wrap items-center justify-end gap-2">
          {tools}
          {csvName ? (
            <Button onClick={save} title={`Save "${label}" as a file`}>
              CSV
            </Button>
          ) : null}
        </div>
      ) : null}
      <div
        ref={setScroller}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        className={`card relative overflow-auto ${isVirtual ? "max-h-[70dvh]" : ""}`}
      >
        <table
          className="w-full border-collapse text-left"
          aria-rowcount={sorted.length + 1}
          aria-label={label}
        >
          <thead className="sticky top-0 z-10 bg-raised">
            <tr>
              {columns.map((column) => (
                <HeaderCell key={column.id} column={column} order={order} sort={sort} onSort={onSort} />
              ))}
            </tr>
          </thead>
          {isVirtual ? (
            <VirtualRows rows={sorted} numbers={numbers} scroller={scroller} />
          ) : (
            <PlainRows rows={sorted} numbers={numbers} />
          )}
        </table>
      </div>
    </div>
  );
}

interface HeaderCellProps<T> {
  column: Column<T>;
  order: ReturnType<typeof parseSort>;
  sort: Sort | undefined;
  onSort: ((sort: Sort | undefined) => void) | undefined;
}

function HeaderCell<T>({ column, order, sort, onSort }: HeaderCellProps<T>) {
  const isSorted = order?.column === column.id;
  const direction = isSorted ? (order.isDescending ? "descending" : "ascending") : "none";
  const arrow = isSorted ? (order.isDescending ? " ↓" : " ↑") : "";
  return (
    <th
      scope="col"
      aria-sort={onSort ? direction : undefined}
      className={`px-3 py-2 font-semibold whitespace-nowrap ${column.isNumber ? "text-right" : ""}`}
    >
      {onSort ? (
        <button
          type="button"
          className="font-semibold hover:underline"
          onClick={() => onSort(nextSort(sort, column.id, column.isNumber ?? false))}
        >
          {column.header}
          <span aria-hidden="true">{arrow}</span>
        </button>
      ) : (
        column.header
      )}
    </th>
  );
}
