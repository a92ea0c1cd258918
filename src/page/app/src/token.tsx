// Asks for the token where the server wants one. What is below stays where it is.
import { useEffect, useRef, useState } from "preact/hooks";
import { giveToken, onTokenWanted } from "./api";

export function TokenDialog() {
    const [reason, ask] = useState<string | undefined>(undefined);
    const dialog = useRef<HTMLDialogElement>(null);
    useEffect(() => onTokenWanted(ask), []);
    useEffect(() => {
        if (reason !== undefined) dialog.current?.showModal();
    }, [reason]);
    const submit = (event: SubmitEvent) => {
        event.preventDefault();
        const input = (event.currentTarget as HTMLFormElement).elements.namedItem("token") as HTMLInputElement;
        const token = input.value.trim();
        if (!/^[\x21-\x7e]+$/.test(token)) return;
        input.value = "";
        dialog.current?.close();
        ask(undefined);
        giveToken(token);
    };
    if (reason === undefined) return null;
    return (
        <dialog class="token" ref={dialog} aria-labelledby="token-title" onCancel={(event: { preventDefault(): void }) => event.preventDefault()}>
            <form onSubmit={submit}>
                <h2 id="token-title">This server asks for a token</h2>
                {reason !== "" && <p class="bad" role="alert">{reason}</p>}
                <p>
                    It is kept for this tab only, and sent to this server only. <code>sessionlog tokens create</code> makes one; the scope{" "}
                    <code>read</code> is enough to look.
                </p>
                <label>Token <input name="token" type="password" autocomplete="off" spellcheck={false} required ref={(input: HTMLInputElement | null) => input?.focus()} /></label>
                <button type="submit" class="primary">Open</button>
            </form>
        </dialog>
    );
}
