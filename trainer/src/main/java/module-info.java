/** A graph in, a trained graph out: autodiff, programs, devices, mixed precision, checkpoints. */
module dev.octet.trainer {
    requires transitive dev.octet.formats;
    requires transitive dev.octet.quant;
    requires com.fasterxml.jackson.core;
    requires com.fasterxml.jackson.databind;
    requires com.fasterxml.jackson.dataformat.yaml;
    requires com.google.protobuf;
    requires jcuda;
    requires static jdk.incubator.vector;

    exports dev.octet.trainer;
    exports dev.octet.trainer.activation;
    exports dev.octet.trainer.adapter;
    exports dev.octet.trainer.autodiff;
    exports dev.octet.trainer.check;
    exports dev.octet.trainer.checkpoint;
    exports dev.octet.trainer.collective;
    exports dev.octet.trainer.config;
    exports dev.octet.trainer.cut;
    exports dev.octet.trainer.data;
    exports dev.octet.trainer.device;
    exports dev.octet.trainer.device.cpu;
    exports dev.octet.trainer.device.cuda;
    exports dev.octet.trainer.device.reference;
    exports dev.octet.trainer.dialect;
    exports dev.octet.trainer.guard;
    exports dev.octet.trainer.hook;
    exports dev.octet.trainer.kernel;
    exports dev.octet.trainer.launch;
    exports dev.octet.trainer.loss;
    exports dev.octet.trainer.observe;
    exports dev.octet.trainer.op.qat;
    exports dev.octet.trainer.optimizer;
    exports dev.octet.trainer.precision;
    exports dev.octet.trainer.program;
    exports dev.octet.trainer.qat;
    exports dev.octet.trainer.reduction;
    exports dev.octet.trainer.replay;
    exports dev.octet.trainer.rule;
    exports dev.octet.trainer.shard;
    exports dev.octet.trainer.state;
    exports dev.octet.trainer.step;
    exports dev.octet.trainer.yaml;
    // a test of the command line compares the documented list of operators with the table
    exports dev.octet.trainer.op to
            dev.octet.cli;

    // the command line prints these records as JSON
    opens dev.octet.trainer.check to
            com.fasterxml.jackson.databind;
    opens dev.octet.trainer.collective to
            com.fasterxml.jackson.databind;
    opens dev.octet.trainer.dialect to
            com.fasterxml.jackson.databind;
    // the log of replays is JSON, too
    opens dev.octet.trainer.replay to
            com.fasterxml.jackson.databind;
}
