package dev.octet.converter.pass;

import dev.octet.formats.graph.GraphModel;

/**
 * One step of bringing an imported model to its canonical form.
 *
 * <p>Pure: the given model is not changed, what the pass does not understand it leaves as it is, and the result computes the
 * same outputs. A pass reports what it did, and what it could not do, in the {@link PassLog}.
 */
public interface Pass {
    /** Short lower-case name, for the log: {@code opset-upgrade}. */
    String name();

    /**
     * The changed model; the very same object when there was nothing to do.
     *
     * @throws dev.octet.formats.error.MalformedModelException when the model contradicts itself
     * @throws dev.octet.formats.error.UnsupportedModelException when the model uses what no pass can bring to canonical form
     */
    GraphModel apply(GraphModel model, PassLog log);
}
