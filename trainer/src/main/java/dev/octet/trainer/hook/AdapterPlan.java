package dev.octet.trainer.hook;

/**
 * The training of an adapter, and what it keeps in memory between steps.
 *
 * @param title method and targets in words: {@code LoRA r 8 on 24 Linears}
 * @param weights bytes of the frozen weights, in the type that they are kept in
 * @param adapter bytes of the adapter's parameters, F32
 * @param states bytes of its gradients, moments and other state
 * @param fullStates bytes of gradients and moments if all weights were trained by the same optimizer
 */
public record AdapterPlan(String title, long weights, long adapter, long states, long fullStates) {
    /** Adapter and states as a share of the states of a full run. */
    public double share() {
        return fullStates == 0 ? 1 : (double) (adapter + states) / fullStates;
    }
}
