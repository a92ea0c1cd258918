// uPlot in a component: drawn in the page's own colours, again when the theme or the width changes.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

export interface Colours { ink: string; quiet: string; line: string; accent: string; bad: string; warm: string; good: string }

export function colours(): Colours {
    const style = getComputedStyle(document.documentElement);
    const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
    return { ink: of("ink"), quiet: of("quiet"), line: of("line"), accent: of("accent"), bad: of("bad"), warm: of("warm"), good: of("good") };
}

interface Props {
    label: string;
    data: uPlot.AlignedData;
    /** Everything but size, which follows the page. */
    options: (colours: Colours) => Omit<uPlot.Options, "width" | "height">;
    /** A click on a place of the x axis: its value there. */
    pick: (x: number) => void;
    height?: number;
}

export function Plot({ label, data, options, pick, height = 220 }: Props) {
    const place = useRef<HTMLDivElement>(null);
    const picked = useRef(pick);
    picked.current = pick;
    useEffect(() => {
        const element = place.current;
        if (element === null) return undefined;
        let plot: uPlot | undefined;
        const draw = () => {
            plot?.destroy();
            const made = new uPlot({ ...options(colours()), legend: { show: false }, width: element.clientWidth, height }, data, element);
            made.over.addEventListener("click", () => made.cursor.idx != null && picked.current(data[0][made.cursor.idx] ?? 0));
            plot = made;
        };
        draw();
        const theme = matchMedia("(prefers-color-scheme: dark)");
        theme.addEventListener("change", draw);
        const size = new ResizeObserver(() => plot !== undefined && element.clientWidth > 0 && plot.width !== element.clientWidth && plot.setSize({ width: element.clientWidth, height }));
        size.observe(element);
        return () => {
            theme.removeEventListener("change", draw);
            size.disconnect();
            plot?.destroy();
        };
    }, [data]);
    return <div class="plot" ref={place} role="img" aria-label={label} />;
}
