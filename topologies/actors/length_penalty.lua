-- A penalty for each token beyond what is free: 0 for a response that is short enough, then -rate a token.
needs = { "response_ids" }
gives = { "penalty" }

function score(batch)
  local free, rate = options.free or 3, options.rate or 0.1
  for i, ids in ipairs(batch.response_ids) do
    local over = math.max(0, #ids - free)
    batch.out.penalty[i] = -rate * over
    metric("reward/over_length", over)
  end
end
