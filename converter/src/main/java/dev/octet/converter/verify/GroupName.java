package dev.octet.converter.verify;

import java.util.EnumSet;

/** The name of the only group of a compressed-tensors configuration. */
final class GroupName extends CheckpointRule {
    GroupName() {
        super(
                "group-name",
                Severity.WARNING,
                EnumSet.of(Consumer.TENSORRT_LLM),
                "The one group of config_groups is called group_0: TensorRT-LLM looked for no other name.",
                "rename the group to group_0",
                "NVIDIA/TensorRT-LLM#15415, NVIDIA/TensorRT-LLM#17723");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.COMPRESSED_TENSORS
                && settings.groups().stream().noneMatch(g -> g.name().equals("group_0"))) {
            settings.groups()
                    .forEach(g -> findings.add(this, "no group is called group_0", "config_groups." + g.name(), ""));
        }
    }
}
