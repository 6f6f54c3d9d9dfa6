import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet } from "@tanstack/react-router";
import { Activity, lazy, Suspense, useEffect, useEffectEvent, useState } from "react";
import {
  BegunSession,
  forgetAnswers,
  isAnother,
  isSignedIn,
  type SignedIn,
  useSession,
  useSignOutElsewhere,
} from "@/api/session";
import { Button } from "@/components/Button";
import { Loading, Problem } from "@/components/Notice";
import { navFor } from "./nav";
import { useHeldAnswers } from "./queries";
import { SessionMenu } from "./SessionMenu";
import { SignIn } from "./SignIn";
import { useSignInLink } from "./SignInLink";

const CommandPalette = lazy(() => import("./CommandPalette"));

/**
 * Everything around the screens. Without a session it is the sign-in, and the address stays. When a session ends by itself,
 * its screens wait behind the sign-in with what the reader typed, for half an hour. They come back for the same key only.
 */
export function Layout() {
  const queries = useQueryClient();
  const session = useSession();
  const link = useSignInLink();
  const [begun, setBegun] = useState<SignedIn | null>(null);
  const current = isSignedIn(session.data) && !link.isSigningIn ? session.data : null;
  const [isLeft, setLeft] = useState(false);
  if (current !== null && current !== begun) {
    // Another tab can replace the session of this one. The screens below must not find what the old one has read.
    if (begun !== null && isAnother(current, begun)) {
      forgetAnswers(queries);
      setLeft(false);
    }
    setBegun(current);
  }
  if (current === null && isLeft) {
    setBegun(null);
    setLeft(false);
  }
  const isWaiting = current === null && begun !== null;
  useHeldAnswers(isWaiting);
  useWaitLimit(isWaiting, () => {
    forgetAnswers(queries);
    setLeft(true);
  });
  useSignOutElsewhere(() => setLeft(true));
  if (session.data === undefined) {
    return (
      <main className="p-6">
        <title>Model Gateway</title>
        {session.error ? <Problem error={session.error} onRetry={session.refetch} /> : <Loading />}
      </main>
    );
  }
  const shown = current ?? begun;
  return (
    <>
      {current ? null : (
        <SignIn
          session={session.data}
          ended={begun}
          isLinkSigningIn={link.isSigningIn}
          linkError={link.error}
        />
      )}
      {shown ? (
        <Activity mode={current ? "visible" : "hidden"}>
          <BegunSession value={shown}>
            <Frame
              key={`${shown.id} ${shown.role}`}
              session={shown}
              linkError={link.error}
              onSignedOut={() => setLeft(true)}
            />
          </BegunSession>
        </Activity>
      ) : null}
    </>
  );
}

const WAIT_LIMIT_MS = 30 * 60_000;
const WAIT_LOOK_MS = 30_000;

/** Calls `onLimit` after half an hour of waiting. The clock decides, because timers stand still while a machine sleeps. */
function useWaitLimit(isWaiting: boolean, onLimit: () => void): void {
  const end = useEffectEvent(onLimit);
  useEffect(() => {
    if (!isWaiting) return;
    const since = Date.now();
    const timer = setInterval(() => {
      if (Date.now() - since >= WAIT_LIMIT_MS) end();
    }, WAIT_LOOK_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);
}

interface FrameProps {
  session: SignedIn;
  onSignedOut: () => void;
  /** Why the link that opened this page was refused, although an older session goes on. */
  linkError: Error | null;
}

function Frame({ session, linkError, onSignedOut }: FrameProps) {
  const [isMenuOpen, setMenuOpen] = useState(false);
  const palette = usePalette();
  const closeMenu = () => setMenuOpen(false);
  return (
    <div className="min-h-dvh lg:grid lg:grid-cols-[15rem_minmax(0,1fr)]">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded focus:bg-surface focus:p-2"
      >
        Go to the content
      </a>
      <aside className="border-b border-line bg-surface lg:sticky lg:top-0 lg:flex lg:h-dvh lg:flex-col lg:overflow-y-auto lg:border-r lg:border-b-0">
        <div className="flex items-center justify-between px-4 py-3">
          <span className="font-semibold">Model Gateway</span>
          <Button
            className="lg:hidden"
            aria-expanded={isMenuOpen}
            aria-controls="menu"
            onClick={() => setMenuOpen(!isMenuOpen)}
          >
            Menu
          </Button>
        </div>
        <div id="menu" className={`${isMenuOpen ? "flex" : "hidden"} flex-col lg:flex lg:flex-1`}>
          <div className="px-3">
            <Button className="w-full justify-between!" onClick={palette.open} aria-keyshortcuts="Control+K">
              <span>Go to…</span>
              <kbd className="font-mono text-xs text-muted">Ctrl K</kbd>
            </Button>
          </div>
          <Navigation session={session} onGo={closeMenu} />
          <SessionMenu session={session} onSignedOut={onSignedOut} />
        </div>
      </aside>
      <main id="main" tabIndex={-1} className="min-w-0 px-4 py-5 outline-none lg:px-8 lg:py-7">
        {linkError ? (
          <div className="mb-4">
            <Problem error={linkError} />
          </div>
        ) : null}
        <Outlet />
      </main>
      {palette.isUsed ? (
        <Suspense fallback={null}>
          <CommandPalette
            session={session}
            isOpen={palette.isOpen}
            onClose={() => {
              palette.close();
              closeMenu();
            }}
          />
        </Suspense>
      ) : null}
    </div>
  );
}

interface NavigationProps {
  session: SignedIn;
  /** Is called when the reader chooses a screen, also the one that is shown. */
  onGo: () => void;
}

function Navigation({ session, onGo }: NavigationProps) {
  return (
    <nav aria-label="Screens" className="flex-1 px-3 py-2">
      {navFor(session).map((group) => (
        <div key={group.label} className="mt-3">
          <p className="px-2 pb-1 text-xs font-medium text-muted">{group.label}</p>
          <ul>
            {group.items.map((item) => (
              <li key={item.to}>
                <Link
                  to={item.to}
                  onClick={onGo}
                  activeOptions={{ exact: item.to === "/", includeSearch: false }}
                  className="block rounded-md px-2 py-1.5 hover:bg-raised aria-[current=page]:bg-tint aria-[current=page]:font-medium aria-[current=page]:text-accent"
                >
                  {item.label}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

/** Ctrl+K (on a Mac ⌘K) opens the command palette. Its code loads at the first use. */
function usePalette() {
  const [isOpen, setOpen] = useState(false);
  const [isUsed, setUsed] = useState(false);
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setUsed(true);
      setOpen((was) => !was);
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return {
    isOpen,
    isUsed,
    open: () => {
      setUsed(true);
      setOpen(true);
    },
    close: () => setOpen(false),
  };
}
