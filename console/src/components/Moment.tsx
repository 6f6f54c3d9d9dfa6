import { relative, utc } from "@/format/time";

/** A moment as a distance from now; pointing at it shows the time in UTC. */
export function Moment({ at }: { at: string }) {
  return (
    <time dateTime={at} title={utc(at)} className="whitespace-nowrap">
      {relative(at)}
    </time>
  );
}
