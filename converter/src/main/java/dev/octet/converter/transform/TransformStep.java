package dev.octet.converter.transform;

import java.util.List;

/**
 * One thing that a transform does, for the plan and the report.
 *
 * @param transform as {@code smoothquant:0.5}
 * @param into the module that takes the inverse: a norm or a Linear; of a rotation, what turns
 * @param of the modules whose weights take the factors
 * @param how in words
 */
public record TransformStep(String transform, String into, List<String> of, String how) {
    public TransformStep {
        of = List.copyOf(of);
    }
}
