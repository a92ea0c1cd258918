// A list of which only what is seen is in the document: virtual-core driven from a component.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer, type VirtualizerOptions } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useReducer, useState } from "preact/hooks";

export type List = Virtualizer<HTMLElement, HTMLElement>;
type Options = Pick<VirtualizerOptions<HTMLElement, HTMLElement>, "count" | "getScrollElement" | "estimateSize" | "getItemKey" | "paddingStart" | "paddingEnd" | "overscan">;

export function useVirtual(options: Options): List {
    const [, draw] = useReducer((n: number, _: void) => n + 1, 0);
    const all: VirtualizerOptions<HTMLElement, HTMLElement> = {
        ...options,
        // What is seen stays where it is when pages come before it.
        anchorTo: "end",
        scrollEndThreshold: 80,
        observeElementRect,
        observeElementOffset,
        scrollToFn: elementScroll,
        onChange: () => draw(),
    };
    const [list] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(all));
    list.setOptions(all);
    useEffect(() => list._didMount(), []);
    useLayoutEffect(() => list._willUpdate());
    return list;
}
