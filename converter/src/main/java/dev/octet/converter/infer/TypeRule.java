package dev.octet.converter.infer;

/** Derives the types of one operator's outputs from what is known of its inputs. What it does not set stays unknown. */
@FunctionalInterface
interface TypeRule {
    void infer(NodeTypes t);
}
