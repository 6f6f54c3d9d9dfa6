import type { ComponentProps } from "react";

const LOOKS = {
  primary: "border-action bg-action text-white hover:bg-action-hover",
  plain: "border-edge bg-surface text-text hover:bg-raised",
  quiet: "border-transparent text-text hover:bg-raised",
  danger: "border-bad bg-surface text-bad hover:bg-bad-tint",
} as const;

export type ButtonLook = keyof typeof LOOKS;

/** The classes of a button, for links that look like one. */
export function buttonClass(look: ButtonLook = "plain"): string {
  return `inline-flex h-9 items-center justify-center gap-1.5 rounded-md border px-3 font-medium whitespace-nowrap disabled:opacity-60 ${LOOKS[look]}`;
}

interface ButtonProps extends ComponentProps<"button"> {
  look?: ButtonLook;
}

export function Button({ look = "plain", type = "button", className = "", ...rest }: ButtonProps) {
  return <button type={type} className={`${buttonClass(look)} ${className}`} {...rest} />;
}
