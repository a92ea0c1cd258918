// What JSX becomes: calls of h, which are shorter than those of the automatic form.
export { Fragment, h } from "preact";
