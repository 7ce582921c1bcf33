-- Watches a run of a policy: halves the learning rate whenever the policy moves too far in one step, and tries a higher
-- temperature for ten steps when the reward stands still.
--
--     verl-run --set run.script=scripts/kl_guard.lua topologies/quickstart.toml
local lr = 5e-5

when("actor/ppo_kl > 0.02", function(run)
  lr = lr / 2
  run:set("stage.update.lr", lr)
  run:log("learning rate", lr, "from step", run:step() + 1)
end, { again = true })

at_step(30, function(run)
  run:branch({ stage = { generate = { temperature = 1.2 } } }, 10, function(result)
    run:log("reward at temperature 1.2:", result.metrics["critic/score/mean"], "before:", result.before["critic/score/mean"])
  end)
end)
