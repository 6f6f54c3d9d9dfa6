import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "@/api/client";
import { useRight } from "@/api/session";
import { Button } from "@/components/Button";
import { Select } from "@/components/Field";
import { Loaded } from "@/components/Loaded";
import { Empty } from "@/components/Notice";
import { type Column, DataTable } from "@/components/table/DataTable";
import type { Change } from "./changes";
import { Editor } from "./Editor";
import { Saved } from "./Saved";
import { TABLES } from "./search";
import { oneLine, type Value } from "./value";

const route = getRouteApi("/configuration");

interface Setting {
  name: string;
  value: unknown;
  origin: string;
  isOwn: boolean;
}

const COLUMNS: readonly Column<Setting>[] = [
  { id: "name", header: "Setting", value: (row) => row.name, cell: (row) => <code>{row.name}</code> },
  {
    id: "value",
    header: "Value",
    value: (row) => oneLine(row.value),
    cell: (row) => <code>{oneLine(row.value)}</code>,
  },
  { id: "origin", header: "Set by", value: (row) => row.origin },
];

/** The settings of a table that differ from their defaults, each with where it is set. */
export function Settings() {
  const { table = "routing", edit } = route.useSearch();
  const navigate = route.useNavigate();
  const mayEdit = useRight("configure");
  const [saved, setSaved] = useState<Change>();
  const section = api.useQuery("get", "/admin/v1/config/{section}", { params: { path: { section: table } } });
  const go = (next: { table?: typeof table; edit?: string | undefined }) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end gap-3">
        <Select
          label="Table"
          options={TABLES.map((value) => ({ value, label: `[${value}]` }))}
          value={table}
          onChange={(event) => go({ table: TABLES.find((item) => item === event.target.value) ?? "routing" })}
        />
        {mayEdit ? (
          <Button aria-label={`Edit ${table}`} onClick={() => go({ edit: table })}>
            Edit
          </Button>
        ) : null}
      </div>
      <Saved change={saved} />
      <Loaded query={section} what="the settings">
        {(data) => {
          const rows = "places" in data ? settingsOf(Object(data.value), Object(data.places)) : [];
          const own = Object.fromEntries(rows.filter((row) => row.isOwn).map((row) => [row.name, row.value]));
          return (
            <>
              <DataTable
                label={`Settings of ${table}`}
                columns={COLUMNS}
                rows={rows}
                rowKey={(row) => row.name}
                csvName={`settings-${table}`}
                empty={
                  <Empty title={`Every setting of [${table}] has its default.`}>
                    <p>docs/config.md lists all settings and their defaults.</p>
                  </Empty>
                }
              />
              {mayEdit && edit === table && "places" in data ? (
                <Editor
                  subject={{ section: table, version: data.version }}
                  before={own}
                  onSaved={(change) => {
                    setSaved(change);
                    go({ edit: undefined });
                  }}
                  onClose={() => go({ edit: undefined })}
                />
              ) : null}
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

function settingsOf(
  value: Value,
  places: Record<string, { source?: string; place?: string | null }>,
): Setting[] {
  return Object.entries(value).map(([name, item]) => {
    const where = places[name];
    const isOwn = where?.source === "api";
    return {
      name,
      value: item,
      isOwn,
      origin: isOwn ? "the API" : `${where?.source ?? "file"} ${where?.place ?? ""}`.trim(),
    };
  });
}
