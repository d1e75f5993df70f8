package dev.octet.trainer.config;

/** What to do after a step whose loss or gradients are not finite. The step is always reported. */
public enum NonFinitePolicy {
    /** Discard its gradients, keep the parameters, continue. */
    SKIP,
    /** End the run, with the parameters from before the step. */
    STOP
}
