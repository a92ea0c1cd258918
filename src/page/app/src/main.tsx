// The page: its bar, the screen of the address, the keys, and the question for a token.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { forgetToken, hasToken } from "./api";
import { link, type Route, useRoute } from "./route";
import { Compare } from "./screens/compare";
import { Help } from "./screens/help";
import { Memory } from "./screens/memory";
import { Search } from "./screens/search";
import { SessionScreen } from "./screens/session";
import { Sessions } from "./screens/sessions";
import { Store } from "./screens/store";
import { Why } from "./screens/why";
import { TokenDialog } from "./token";
import { useKeys } from "./use";

const PLACES = [
    ["", "Sessions"],
    ["search", "Search"],
    ["why", "Why"],
    ["memory", "Memory"],
    ["store", "Store"],
] as const;

function Screen({ route }: { route: Route }) {
    switch (route.parts[0]) {
        case undefined:
            return <Sessions route={route} />;
        case "s":
            return <SessionScreen route={route} />;
        case "search":
            return <Search route={route} />;
        case "why":
            return <Why route={route} />;
        case "memory":
            return <Memory route={route} />;
        case "compare":
            return <Compare route={route} />;
        case "store":
            return <Store />;
        default:
            return <main class="page"><h1>There is no such page</h1><p><a href="#/">See all sessions</a></p></main>;
    }
}

function App() {
    const route = useRoute();
    const [helps, help] = useState(false);
    useKeys((key) => {
        if (key === "?") {
            help(true);
            return true;
        }
        if (key === "/") {
            const field = document.querySelector<HTMLInputElement>("[data-slash]");
            if (field === null) location.hash = link(["search"]);
            field?.focus();
            field?.select();
            return true;
        }
        return false;
    });
    useEffect(() => {
        // Out of a field, so that the keys of the screen work again.
        const escape = (event: KeyboardEvent) => {
            if (event.key === "Escape" && event.target instanceof HTMLInputElement) event.target.blur();
        };
        addEventListener("keydown", escape);
        return () => removeEventListener("keydown", escape);
    }, []);
    const here = route.parts[0] === "s" ? "" : (route.parts[0] ?? "");
    return (
        <>
            <header class="bar">
                <a class="brand" href="#/">sessionlog</a>
                <nav aria-label="Screens">
                    {PLACES.map(([name, label]) => <a href={link(name === "" ? [] : [name])} aria-current={here === name ? "page" : undefined}>{label}</a>)}
                </nav>
                <span class="bar-end">
                    {hasToken() && <button type="button" onClick={() => { forgetToken(); location.reload(); }}>Forget the token</button>}
                    <button type="button" aria-label="Keys and help" onClick={() => help(true)}>?</button>
                </span>
            </header>
            <Screen route={route} />
            {helps && <Help close={() => help(false)} />}
            <TokenDialog />
        </>
    );
}

const place = document.getElementById("app");
if (place !== null) render(<App />, place);
