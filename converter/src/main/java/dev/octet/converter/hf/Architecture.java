package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.regex.Pattern;

/**
 * One family of models as transformers has it: which classes, what they compute, and which tensor is which parameter. Stateless.
 *
 * <p>To add one: a file {@code <Name>Architecture}, a line in {@link HfImporter#ARCHITECTURES}, and a tiny checkpoint with golden logits
 * and gradients in {@code testdata/models/tiny-hf}.
 */
interface Architecture {
    /** {@code model_type} in {@code config.json}. */
    String modelType();

    /** Classes of transformers that Octet knows the graph of; the first is taken where {@code config.json} names none. */
    List<String> classes();

    /** Prefix that files of models with a head have in front of the body's names, with its dot, and files of bare models have not. */
    String prefix();

    /** Whether files of a class that gives the last layer keep the prefix, as those with CLIP's projections do. */
    default boolean keepsPrefix(String modelClass) {
        return false;
    }

    /**
     * Tensors that files may hold although the model does not compute with them: buffers of old versions, heads of another task. A match
     * anywhere in the name counts.
     */
    default List<Pattern> ignored() {
        return List.of();
    }

    /** Parameters that a checkpoint of a bare model may have or lack: each adds an output. */
    default List<String> optional() {
        return List.of();
    }

    /**
     * Configurations under which this architecture might compute what a graph of these traits does, the likeliest first; none where it
     * cannot. Where the traits leave something open, each possibility is a candidate. Keys that no graph shows are left out.
     */
    default List<ObjectNode> candidates(GraphTraits traits) {
        return List.of();
    }

    /** Keys of the configuration that no graph shows, for those who fill them in. */
    default List<String> unseen() {
        return List.of();
    }

    /** Adds inputs, nodes and outputs of the model to {@code draft}. */
    void build(HfConfig config, String modelClass, GraphDraft draft);
}
