package dev.octet.trainer;

import dev.octet.trainer.hook.Fp8Report;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.hook.TrainingHook;
import java.util.ArrayList;
import java.util.List;

/** Has every step measured, and keeps the reports. */
final class WatchedFp8 implements TrainingHook {
    private final List<Fp8Report> reports = new ArrayList<>();

    @Override
    public boolean watchesFp8(long step) {
        return true;
    }

    @Override
    public void fp8Measured(Fp8Report report) {
        reports.add(report);
    }

    /** Of each step, from the first. */
    List<Fp8Report> reports() {
        return reports;
    }

    /** The tensor of a step, from 1, with a slot. */
    Fp8Tensor tensor(int step, String slot) {
        return reports.get(step - 1).tensors().stream()
                .filter(t -> t.slot().equals(slot))
                .findFirst()
                .orElseThrow();
    }
}
