package dev.octet.formats.op;

/** How the types and shapes of an operator's outputs follow from its inputs. */
public enum OutputRule {
    /** Output 0 has the element type and the shape of input 0. */
    SAME_AS_INPUT,
    /** The element type of input 0, the shape that all inputs broadcast to. */
    BROADCAST,
    /** BOOL, in the shape that all inputs broadcast to. */
    COMPARISON,
    /** BOOL, in the shape of input 0. */
    PREDICATE,
    /** Input 0 with the axes of attribute or input {@code axes} reduced. */
    REDUCTION,
    /** A rule of its own, in {@code dev.octet.converter.infer}. */
    OWN_RULE,
    /** No rule: the outputs have the types that the file declares, if any. */
    UNKNOWN
}
