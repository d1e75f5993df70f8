package dev.octet.trainer.config;

/** What happens to a step whose loss or gradients are not finite. It is always reported. */
public enum NonFinitePolicy {
    /** Its gradients are thrown away, parameters stay, the run goes on. */
    SKIP,
    /** The run ends, parameters as they were before the step. */
    STOP
}
