// The keys.
import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
    ["j  k", "next, previous row, hit, session or moment"],
    ["Enter", "open or close the row"],
    ["]  [", "next, previous failure"],
    ["n  p", "next, previous message of a person"],
    ["g  G", "the beginning, the end"],
    ["b", "show or hide bookkeeping"],
    ["/", "the search field of this screen"],
    ["Esc", "leave the field; close what is open"],
    ["?", "this help"],
];

export function Help({ close }: { close: () => void }) {
    const dialog = useRef<HTMLDialogElement>(null);
    useEffect(() => dialog.current?.showModal(), []);
    return (
        <dialog class="help" ref={dialog} onClose={close} aria-labelledby="help-title">
            <h2 id="help-title">Keys</h2>
            <dl class="pairs">{KEYS.map(([key, what]) => <div><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
            <p class="quiet">The address names what you see: copy it to come back, or to show it to others who may read this store.</p>
            <button type="button" class="primary" onClick={() => dialog.current?.close()}>Close</button>
        </dialog>
    );
}
