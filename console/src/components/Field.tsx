import { type ComponentProps, type ReactNode, useId } from "react";

interface Described {
  label: string;
  hint?: ReactNode;
  problem?: string | undefined;
  /** Hides the label from sight; it stays the accessible name. */
  isLabelHidden?: boolean;
}

interface Wiring {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean | undefined;
}

interface LabelledProps extends Described {
  children: (wiring: Wiring) => ReactNode;
}

/** A label, a control, and a hint or a problem that belong together. */
export function Labelled({ label, hint, problem, isLabelHidden, children }: LabelledProps) {
  const id = useId();
  const note = problem ?? hint;
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className={isLabelHidden ? "sr-only" : "font-medium"}>
        {label}
      </label>
      {children({
        id,
        "aria-describedby": note ? `${id}-note` : undefined,
        "aria-invalid": problem ? true : undefined,
      })}
      {note ? (
        <p id={`${id}-note`} className={problem ? "text-bad" : "text-muted"}>
          {note}
        </p>
      ) : null}
    </div>
  );
}

type TextProps = Described & ComponentProps<"input">;

export function TextField({ label, hint, problem, isLabelHidden, className = "", ...rest }: TextProps) {
  return (
    <Labelled label={label} hint={hint} problem={problem} isLabelHidden={isLabelHidden ?? false}>
      {(wiring) => <input type="text" className={`field ${className}`} {...wiring} {...rest} />}
    </Labelled>
  );
}

type AreaProps = Described & ComponentProps<"textarea">;

export function TextArea({ label, hint, problem, isLabelHidden, className = "", ...rest }: AreaProps) {
  return (
    <Labelled label={label} hint={hint} problem={problem} isLabelHidden={isLabelHidden ?? false}>
      {(wiring) => <textarea className={`field ${className}`} {...wiring} {...rest} />}
    </Labelled>
  );
}

export interface Option {
  value: string;
  label: string;
}

type SelectProps = Described & Omit<ComponentProps<"select">, "children"> & { options: readonly Option[] };

export function Select({
  label,
  hint,
  problem,
  isLabelHidden,
  options,
  className = "",
  ...rest
}: SelectProps) {
  return (
    <Labelled label={label} hint={hint} problem={problem} isLabelHidden={isLabelHidden ?? false}>
      {(wiring) => (
        <select className={`field ${className}`} {...wiring} {...rest}>
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  );
}

type CheckProps = ComponentProps<"input"> & { label: ReactNode };

export function Checkbox({ label, className = "", ...rest }: CheckProps) {
  return (
    <label className={`inline-flex items-center gap-2 ${className}`}>
      <input type="checkbox" className="size-4 accent-action" {...rest} />
      <span>{label}</span>
    </label>
  );
}
