import { flexRender, type Row } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo } from "react";

interface RowsProps<T> {
  rows: Row<T>[];
  /** The columns whose cells stand at the right. */
  numbers: ReadonlySet<string>;
}

const ROW_HEIGHT = 37;

interface TableRowProps<T> {
  row: Row<T>;
  index: number;
  numbers: ReadonlySet<string>;
}

/** A row is drawn anew only when its data change, not when the reader scrolls. */
const TableRow = memo(DrawnRow) as typeof DrawnRow;

function DrawnRow<T>({ row, index, numbers }: TableRowProps<T>) {
  return (
    <tr aria-rowindex={index + 2} className="border-t border-line hover:bg-raised">
      {row.getVisibleCells().map((cell) => (
        <td
          key={cell.id}
          className={`max-w-96 truncate px-3 py-2 ${numbers.has(cell.column.id) ? "text-right tabular-nums" : ""}`}
        >
          {flexRender(cell.column.columnDef.cell, cell.getContext())}
        </td>
      ))}
    </tr>
  );
}

export function PlainRows<T>({ rows, numbers }: RowsProps<T>) {
  return (
    <tbody>
      {rows.map((row, index) => (
        <TableRow key={row.id} row={row} index={index} numbers={numbers} />
      ))}
    </tbody>
  );
}

interface VirtualRowsProps<T> extends RowsProps<T> {
  /** The element that scrolls, once it is on the page. */
  scroller: HTMLElement | null;
}

/** The rows in sight, between two spaces as high as the rows that are out of sight. */
export function VirtualRows<T>({ rows, numbers, scroller }: VirtualRowsProps<T>) {
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  const items = virtualizer.getVirtualItems();
  const above = items[0]?.start ?? 0;
  const below = virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <tbody>
      <Space height={above} />
      {items.map((item) => {
        const row = rows[item.index];
        return row ? <TableRow key={row.id} row={row} index={item.index} numbers={numbers} /> : null;
      })}
      <Space height={below} />
    </tbody>
  );
}

function Space({ height }: { height: number }) {
  return height > 0 ? <tr style={{ height }} /> : null;
}
